// The picture of an explorer, its alt text, the words below it, and names for the sliders beside it.
function name_sliders(box) {
  for (const slider of box.querySelectorAll(".widget-slider")) {
    const label = slider.querySelector(".widget-label");
    for (const handle of slider.querySelectorAll("[role=slider]")) handle.setAttribute("aria-label", label.textContent);
  }
}

function render({ model, el }) {
  const picture = document.createElement("img");
  const words = document.createElement("p");
  words.setAttribute("role", "status");
  picture.style.maxWidth = "100%";
  el.append(picture, words);

  const show_picture = () => {
    const old = picture.src;
    picture.src = URL.createObjectURL(new Blob([model.get("picture")], { type: "image/png" }));
    if (old) URL.revokeObjectURL(old);
  };
  const show_alt = () => (picture.alt = model.get("alt"));
  const show_words = () => (words.textContent = model.get("words"));
  model.on("change:picture", show_picture);
  model.on("change:alt", show_alt);
  model.on("change:words", show_words);
  show_picture(), show_alt(), show_words();

  const waiting = setInterval(() => {
    const box = el.closest(".widget-vbox");
    if (box) name_sliders(box), clearInterval(waiting);
  }, 100);
  return () => {
    clearInterval(waiting);
    URL.revokeObjectURL(picture.src);
  };
}

export default { render };
