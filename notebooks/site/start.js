// Bring every explorer of the page to life. Its states are fetched as a script, which works from a folder too.
const states_of = (el) => () =>
  new Promise((done, fail) => {
    const script = document.createElement("script");
    script.src = el.dataset.states;
    script.onload = () => done(posenc_states[el.id]);
    script.onerror = () => fail(new Error(`${script.src} is missing`));
    document.head.append(script);
  });
// What is wider than its place can be moved with the arrow keys.
const let_keys_reach = () => {
  for (const el of document.querySelectorAll("pre, .table-wrapper, .math, .output"))
    if (el.scrollWidth > el.clientWidth) el.tabIndex = 0;
};
const start = () => {
  let_keys_reach();
  addEventListener("resize", let_keys_reach);
  document.addEventListener("toggle", let_keys_reach, true); // code that was folded
  for (const el of document.querySelectorAll(".posenc-explorer")) {
    replay(el, states_of(el));
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    if ("play" in el.dataset && !calm) el.querySelector(".posenc-play")?.click();
  }
};
if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
