"""Page objects for the site: a page without a kernel, and an explorer on it that plays its recording."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote, urlsplit

from axe_playwright_python.sync_playwright import Axe

# The picture and the words of an explorer, once they are others than those given or some time has passed.
CHANGED = """async (box, [before, limit]) => {
    const state = () => {
        const picture = box.querySelector('img');
        const words = box.querySelector('[role=status]').innerText;
        return [picture.getAttribute('src') + picture.style.backgroundImage, words];
    };
    const waits = () => state().join() === before.join() || box.querySelector('[aria-busy=true]');
    const end = performance.now() + limit;
    while (waits() && performance.now() < end) await new Promise(requestAnimationFrame);
    return state();
}"""


class StaticPage:
    """A page of the site in a window of its own, with what it complains of and asks for."""

    def __init__(self, browser, path: Path, **window):
        self.context = browser.new_context(**{"viewport": {"width": 1280, "height": 1000}} | window)
        self.page, self.troubles, self.asked = self.context.new_page(), [], []
        self.page.on("pageerror", lambda error: self.troubles.append(str(error)))
        self.page.on("console", lambda m: m.type == "error" and self.troubles.append(m.text))
        self.page.on("requestfailed", lambda request: self.troubles.append(request.url))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(path.as_uri())
        self.page.wait_for_function("!window.MathJax?.startup || MathJax.startup.promise.then(() => true)")
        # the layer of an explorer gets its address when its background is there; until then it counts as complete
        shown = "image.getAttribute('src') && (image.complete || image.loading === 'lazy')"  # when it comes into view
        self.page.wait_for_function(f"[...document.images].every(image => {shown})")
        self.explorers = [Recorded(box) for box in self.page.locator(".posenc-explorer").all()]

    def files(self) -> set[Path]:
        """The files of the site that the page has asked for."""
        return {Path(unquote(urlsplit(url).path)) for url in self.asked if url.startswith("file:")}

    def violations(self, contrast: bool = True) -> list[str]:
        """What axe-core finds, serious or critical; the contrast of all words takes most of its time."""
        rules = {"color-contrast": {"enabled": contrast}}
        options = {"preload": False, "resultTypes": ["violations"], "rules": rules}
        found = Axe().run(self.page, options=options).response["violations"]
        serious = [one for one in found if one["impact"] in ("serious", "critical")]
        return [f"{one['id']}: {node['html'][:200]}" for one in serious for node in one["nodes"]]

    def too_wide(self, *widths: int) -> list[int]:
        """The widths of a window at which the page has to be moved sideways to be read; the window keeps the last."""
        found = []
        for width in widths:
            self.page.set_viewport_size({"width": width, "height": 1000})
            if self.page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                found.append(width)
        return found

    def close(self) -> None:
        """Close the window."""
        self.context.close()


class Recorded:
    """An explorer that plays its recording."""

    def __init__(self, box):
        self.box, self.words = box, box.locator("[role=status]")
        self.element = box.element_handle()

    def state(self, before: tuple = (), limit: int = 0) -> tuple[str, str]:
        """Picture and words; with a state of before, once they have changed, but after ``limit`` ms at the latest."""
        return tuple(self.element.evaluate(CHANGED, [list(before), limit]))

    def control(self, label: str):
        """The control with this label."""
        return self.box.get_by_label(label, exact=True)

    def sweeps(self) -> Iterator[tuple[str, set]]:
        """Of each control the label and the states through which its keys take the explorer."""
        for control in self.box.locator(".posenc-controls input, .posenc-controls select, fieldset").all():
            tag, kind = control.evaluate("c => [c.tagName, c.type]")
            if tag == "FIELDSET":
                label, held = control.locator("legend").inner_text(), control.locator("button").first
                keys = ["Enter", "Enter"]
            else:
                label, held = control.get_attribute("aria-label"), control
                keys = {"range": ["Home", "End"], "checkbox": ["Space", "Space"]}.get(kind)
                keys = keys or ["End", *["ArrowUp"] * (control.locator("option").count() - 1)]
            start, value = self.state(), held.input_value() if tag != "FIELDSET" else None
            states = {here := start}
            for key in keys:
                if kind == "range" and value == held.get_attribute({"Home": "min", "End": "max"}[key]):
                    continue
                held.press(key)
                states.add(here := self.state(here, 1000))
            if tag == "SELECT":
                held.select_option(index=int(value))
            elif kind == "range":
                held.fill(value)
            if here != start:
                here = self.state(here, 3000)
            assert here == start, f"{label} does not come back to the start"
            yield label, states
