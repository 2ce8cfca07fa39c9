// The picture of an explorer in a page: a layer that moves upon a background that stays, the words below them, and a
// button that plays. In a notebook the kernel sends what is shown; on a page without one a recording has it.

const INTERVAL = 120; // milliseconds at least that a played picture stays

// Put a picture into `el`. What comes back shows a state: addresses of layer and background, the margins above and below
// the layer in widths of the picture, alt text, words.
function picture(el, width) {
  const image = document.createElement("img");
  const words = document.createElement("p");
  words.setAttribute("role", "status");
  image.decoding = "sync"; // what arrives is on the screen with the next frame
  image.style.cssText = `display: block; width: ${width}px; max-width: 100%; height: auto; background-size: 100% 100%`;
  image.style.printColorAdjust = "exact"; // paper gets the background too
  el.append(image, words);
  let shown = "", turns = 0;
  const padded = ([above, below]) =>
    [above, below].map((part) => `calc(min(${width}px, 100%) * ${part})`).join(" 0 "); // of the width of what holds it
  return async ({ background, layer, margins = [0, 0], alt, words: sentence }) => {
    const turn = ++turns;
    image.alt = alt;
    image.setAttribute("aria-busy", true);
    words.textContent = sentence;
    if (background !== shown || `${margins}` !== image.dataset.margins) {
      const next = [background, layer].map((address) => Object.assign(new Image(), { src: address }));
      await Promise.all(next.map((one) => one.decode().catch(() => null))); // so that all comes in the same moment
      if (turn !== turns) return;
      image.style.backgroundImage = `url("${(shown = background)}")`;
      image.style.padding = padded(margins);
      image.dataset.margins = margins;
    }
    if (layer !== image.getAttribute("src")) image.src = layer;
    await image.decode().catch(() => null); // it was replaced before it was shown
    if (turn === turns) image.setAttribute("aria-busy", false);
  };
}

// A button that calls `step`, waits until what it promised is done, and calls it again, until it is pressed once more.
function play_button(label, step) {
  const button = document.createElement("button");
  let playing = false;
  const show = () => {
    button.textContent = playing ? "Pause" : "Play";
    button.setAttribute("aria-label", `${playing ? "Pause" : "Play"}: ${label}`);
  };
  const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
  button.type = "button";
  button.className = "posenc-play";
  button.style.minWidth = "5em"; // what stands beside it stays where it is
  button.addEventListener("click", async () => {
    playing = !playing;
    for (show(); playing && button.isConnected; ) await Promise.all([step(), pause(INTERVAL)]);
  });
  show();
  return button;
}

// In a notebook: follow the kernel.
function render({ model, el }) {
  const shown = picture(el, model.get("width"));
  const urls = new Map(); // by data
  const address = (data) => {
    if (!urls.has(data)) urls.set(data, data_url(data));
    return urls.get(data);
  };
  const parts = () => [model.get("background"), model.get("layer")];
  let arrived = () => {};
  const show = async () => {
    const needed = parts(), [background, layer] = needed.map(address);
    const margins = model.get("margins");
    await shown({ background, layer, margins, alt: model.get("alt"), words: model.get("words") });
    arrived();
    for (const data of urls.keys()) if (!parts().includes(data)) urls.delete(data);
  };
  model.on("change:background change:layer change:words change:alt", show);
  show();

  const ratio = devicePixelRatio > 1 ? 2 : 1;
  if (ratio !== model.get("ratio")) {
    model.set("ratio", ratio);
    model.save_changes();
  }
  if (model.get("main")) {
    const step = () =>
      new Promise((done) => {
        arrived = done;
        setTimeout(done, 3000); // the kernel is busy
        model.set("step", model.get("step") + 1);
        model.save_changes();
      });
    el.prepend(play_button(model.get("main"), step));
  }

  const waiting = setInterval(() => {
    const box = el.closest(".widget-vbox");
    if (box) name_sliders(box), clearInterval(waiting);
  }, 100);
  return () => clearInterval(waiting);
}

// The address of a PNG that holds all of it: the page has it sooner than by way of a blob, which another process keeps.
function data_url(view) {
  const bytes = new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
  let text = "";
  for (let n = 0; n < bytes.length; n += 8192) text += String.fromCharCode(...bytes.subarray(n, n + 8192));
  return `data:image/png;base64,${btoa(text)}`;
}

// Give the handles of ipywidgets' sliders the names that stand beside them.
function name_sliders(box) {
  for (const slider of box.querySelectorAll(".widget-slider")) {
    const label = slider.querySelector(".widget-label");
    for (const handle of slider.querySelectorAll("[role=slider]")) handle.setAttribute("aria-label", label.textContent);
  }
}

// On a page without a kernel: follow a recording. `el` holds what is shown at the start and, as JSON, what can be moved;
// `load` returns the states. What is not recorded together moves one at a time, the rest goes back to the start.
function replay(el, load) {
  const page = JSON.parse(el.querySelector("script").textContent);
  const folder = el.dataset.pictures;
  const controls = page.controls.map((spec) => recorded_control(spec));
  const row = document.createElement("div");
  row.className = "posenc-controls";
  row.append(...controls.map((control) => control.el));
  const screen = document.createElement("div");
  screen.className = "posenc-screen";
  const shown = picture(screen, page.width);
  const address = (name) => `${folder}/${name}.webp`;
  const last = { background: address(page.start[1]), layer: address(page.start[0]) };
  shown({ ...last, alt: page.alt, words: page.start[2] });

  let states, loading;
  const ready = () => (loading ??= load().then((loaded) => (states = loaded)));
  const fetched = new Set();
  const fetch_ahead = (keys) => {
    for (const key of keys)
      for (const name of (states[key] ?? []).slice(0, 2))
        if (name && !fetched.has(name)) fetched.add(name), (new Image().src = address(name));
  };
  const sweep = (control) => control.spec.texts.map((_, place) => `${control.spec.name}=${place}`);

  // Where the controls stand, as the name of a state; those that are not recorded with the one that moved go back.
  const settle = (moved) => {
    const away = controls.filter((c) => c !== moved && c.place !== c.spec.start);
    const kept = (group) => away.filter((c) => group.names.includes(c.spec.name)).length;
    const group = page.together
      .filter((group) => group.names.includes(moved.spec.name) && kept(group))
      .reduce((a, b) => (a && kept(a) >= kept(b) ? a : b), undefined);
    const back = away.filter((c) => !group?.names.includes(c.spec.name));
    for (const control of back) control.set(control.spec.start);
    const note = back.length ? `Back at the start: ${back.map((c) => c.spec.label).join(", ")}. ` : "";
    if (!group) return [`${moved.spec.name}=${moved.place}`, note];
    const places = group.names.map((name, n) => {
      const control = controls.find((c) => c.spec.name === name);
      const ahead = group.places[n].filter((place) => (place - control.place) * (control.place - control.before) >= 0);
      const possible = control === moved && ahead.length ? ahead : group.places[n]; // a step of a key leads on
      const near = possible.reduce((a, b) => (Math.abs(b - control.place) < Math.abs(a - control.place) ? b : a));
      control.set(near);
      return near;
    });
    for (const n of places.keys()) fetch_ahead(group.places[n].map((p) => key_of(group, places.with(n, p))));
    return [key_of(group, places), note];
  };

  const follow = async (moved) => {
    await ready();
    fetch_ahead(sweep(moved));
    for (const name of page.resets[moved.spec.name] ?? []) {
      const control = controls.find((c) => c.spec.name === name);
      control.set(control.spec.start);
    }
    const [key, note] = settle(moved);
    const [layer, background, words, others] = states[key];
    if (layer) Object.assign(last, { background: address(background), layer: address(layer) });
    for (const control of controls) control.say(others[control.spec.name]);
    return shown({ ...last, alt: page.alt, words: note + words });
  };
  for (const control of controls) {
    control.el.addEventListener("focusin", () => ready().then(() => fetch_ahead(sweep(control))), { once: true });
    control.on_move = () => follow(control);
  }
  const main = controls.find((control) => control.spec.name === page.play);
  if (main) {
    const step = () => main.set((main.place + 1) % main.spec.texts.length) ?? follow(main);
    row.prepend(play_button(main.spec.label, step));
  }
  el.replaceChildren(row, screen, ...limits_of(page));
}

// What a recording leaves out, in words.
function limits_of(page) {
  const groups = page.together.map(({ names }) =>
    new Intl.ListFormat("en-GB").format(names.map((name) => page.controls.find((spec) => spec.name === name).label)),
  );
  const most = Math.max(1, ...page.together.map(({ names }) => names.length));
  if (page.controls.length <= most) return []; // nothing is left out
  const note = document.createElement("p");
  note.className = "posenc-limits";
  const ways = groups.length ? `${groups.join("; ")} move together, the others` : "controls move";
  note.textContent = `On this page ${ways} one at a time; in a running notebook all do.`;
  return [note];
}

const key_of = ({ names }, places) => names.map((name, n) => `${name}=${places[n]}`).join();

// A control of a recording: where it stands, how to move it, and what stands beside it.
function recorded_control(spec) {
  const el = document.createElement(spec.kind === "row" ? "fieldset" : "label");
  const name = document.createElement(spec.kind === "row" ? "legend" : "span");
  const control = { el, spec, place: spec.start, before: spec.start, on_move: () => {} };
  const move = (place) => (control.set(place), control.on_move());
  name.textContent = spec.label;
  if (spec.kind === "row") {
    const buttons = spec.names.map((word, n) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = word;
      button.addEventListener("click", () => {
        const flipped = (values) => values.map((down, m) => down !== (m === n)).join();
        const found = spec.values.findIndex((values) => values.join() === flipped(spec.values[control.place]));
        // without every combination recorded, a button counts from the start
        move(found >= 0 ? found : spec.values.findIndex((values) => values.join() === flipped(spec.values[spec.start])));
      });
      return button;
    });
    control.show = () =>
      buttons.forEach((button, n) => button.setAttribute("aria-pressed", spec.values[control.place][n]));
    el.append(name, ...buttons);
  } else if (spec.kind === "menu") {
    const menu = document.createElement("select");
    menu.append(...spec.texts.map((text, n) => new Option(text, n)));
    menu.addEventListener("change", () => move(menu.selectedIndex));
    control.show = () => (menu.selectedIndex = control.place);
    el.append(name, menu);
  } else if (spec.kind === "box") {
    const box = document.createElement("input");
    box.type = "checkbox";
    box.addEventListener("change", () => move(box.checked ? 1 : 0));
    control.show = () => (box.checked = control.place === 1);
    el.append(box, name);
  } else {
    const range = document.createElement("input");
    const readout = document.createElement("output");
    Object.assign(range, { type: "range", min: 0, max: spec.texts.length - 1, step: 1 });
    range.addEventListener("input", () => move(range.valueAsNumber));
    control.show = () => {
      range.value = control.place;
      readout.textContent = spec.texts[control.place];
      range.setAttribute("aria-valuetext", spec.texts[control.place]);
    };
    control.readout = readout;
    el.append(name, range, readout);
  }
  el.querySelector("input, select")?.setAttribute("aria-label", spec.label); // without options and readout
  control.set = (place) => {
    control.before = control.place;
    control.place = place;
    control.show();
  };
  control.say = (text) => {
    if (text !== undefined && control.readout) control.readout.textContent = text;
  };
  control.show();
  return control;
}

export default { render, replay };
