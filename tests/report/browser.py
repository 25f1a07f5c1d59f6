"""Opens the HTML report in a real browser, uses it, and takes pictures.

    browser.py PITH FOLDER     # the command, and where pages and pictures go

Fails if the browser reports any error, if the page asks for anything over a network, or if sorting,
choosing, finding, grouping or changing colours does not do what it says.
"""

import json
import pathlib
import subprocess
import sys

from playwright.sync_api import sync_playwright

from make_report import HOSTILE, TURNED, make_odd_report, make_report, make_sorted_report

SIZES = {"desktop": (1280, 900), "tablet": (768, 1024), "phone": (390, 844)}


def make_pages(pith, folder):
    pages = {}
    norm = next(tensor for tensor in make_report(1)["tensors"] if tensor["action"] == "kept")
    reports = {
        "one": make_report(0),
        "model": make_report(22),
        "large": make_report(111),
        "sorted": make_sorted_report(300),
        "odd": make_odd_report(),
        "empty": make_report(0) | {"tensors": [], "stages": [], "seconds": 0},
        "kept": make_report(0) | {"tensors": [norm]},
    }
    reports["kept"]["source"]["bytes"], reports["kept"]["output"]["bytes"] = 504808, 505936
    for name, report in reports.items():
        source = folder / f"{name}.json"
        source.write_text(json.dumps(report))
        pages[name] = folder / f"{name}.html"
        subprocess.run([pith, "report", source, "-o", pages[name], "--force"], check=True)
    return pages


class Visit:
    """A page in a window of its own; complains about errors and requests when it is left."""

    def __init__(self, browser, path, size="desktop", colours="light"):
        width, height = SIZES[size]
        self.context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme=colours, device_scale_factor=1.5
        )
        self.page = self.context.new_page()
        self.problems = []
        self.page.on("console", lambda m: self.problems.append(m.text) if m.type in ("error", "warning") else None)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("dialog", lambda dialog: self.problems.append("dialog " + dialog.message))
        self.page.on("request", lambda r: None if r.url.startswith("file:") else self.problems.append(r.url))
        self.page.goto(path.resolve().as_uri())

    def __enter__(self):
        return self.page

    def __exit__(self, kind, *_):
        problems = self.problems
        self.context.close()
        if kind is None:
            assert not problems, problems


def column(page, number, what="innerText"):
    return page.eval_on_selector_all(
        f"#table tbody tr td:nth-child({number})", f"cells => cells.map(cell => cell.{what})"
    )


def check_sorting(page):
    def numbers():
        return [int(text.split()[0].replace(",", "")) for text in column(page, 4, "title")]

    page.click("#table th button:has-text('after')")
    assert numbers() == sorted(numbers(), reverse=True)
    page.click("#table th button:has-text('after')")
    assert numbers() == sorted(numbers())
    assert page.get_attribute("#table th:nth-child(4)", "aria-sort") == "ascending"
    page.click("#table th button:has-text('SQNR')")  # the worst first, those without figures last
    shown = [text for text in column(page, 7) if text]
    decibels = [float(text.split()[0]) for text in shown]
    assert decibels == sorted(decibels) and column(page, 7)[-1] == ""
    page.click("#table th button:has-text('stored as')")
    assert column(page, 2) == sorted(column(page, 2)) and "kept" in column(page, 2), column(page, 2)
    page.click("#table th button:has-text('tensor')")
    names = column(page, 1)
    assert names.index("model.layers.2.mlp.up_proj.weight") < names.index("model.layers.10.mlp.up_proj.weight")


def row_of(page, name):
    return page.locator(f'#table tbody tr:has(td[title="{name}"])')


def choose(page, name):
    row_of(page, name).click()
    assert page.inner_text("#detail h3") == name


def check_choosing(page):
    row = row_of(page, "model.layers.7.mlp.gate_proj.weight")
    row.click()
    assert page.inner_text("#detail h3") == "model.layers.7.mlp.gate_proj.weight"
    assert row.get_attribute("aria-selected") == "true"
    assert page.locator("#detail svg").count() == 2
    painted = page.evaluate(
        "() => new Set(document.querySelector('#detail canvas').getContext('2d').getImageData(0, 0, 32, 32).data).size"
    )
    assert painted > 20, "the sparsity picture is empty"
    row_of(page, "model.layers.7.input_layernorm.weight").click()
    assert page.locator("#detail svg").count() == 0 and "kept" in page.inner_text("#detail")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    assert page.inner_text("#detail h3") == page.get_attribute("tr[aria-selected=true] td.name", "title")
    assert "layernorm" not in page.inner_text("#detail h3"), page.inner_text("#detail h3")


def check_keyboard(page):
    focused = "document.activeElement.querySelector('td.name').title"
    stops = page.locator("#table tbody tr[tabindex='0']")
    page.focus("#table th:last-child button")
    page.keyboard.press("Tab")
    assert stops.evaluate("row => row === document.activeElement")
    page.keyboard.press("Tab")
    assert page.evaluate("!document.activeElement.closest('#table')")
    stops.focus()
    page.keyboard.press("End")
    assert page.evaluate(focused) == "lm_head.weight"
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == "model.layers.21.post_attention_layernorm.weight"
    page.keyboard.press("Home")
    assert page.evaluate(focused) == "model.embed_tokens.weight"
    page.keyboard.press("ArrowDown")
    assert stops.count() == 1 and stops.evaluate("row => row === document.activeElement")


def check_first_sight(page):
    """The tensor that is shown is in view in its table, though it is none of the first, and the page is at its top."""
    names = column(page, 1)
    assert names.index(page.inner_text("#detail h3")) > 40
    box, row = (page.locator(what).bounding_box() for what in (".tensors .scroll", "tr[aria-selected=true]"))
    assert box["y"] < row["y"] and row["y"] + row["height"] <= box["y"] + box["height"], (box, row)
    assert page.evaluate("scrollY") == 0


def check_columns(page):
    """All columns are in view, and all of every name."""
    hidden = page.eval_on_selector(".tensors .scroll", "box => box.scrollWidth - box.clientWidth")
    assert hidden <= 0, f"{hidden} pixels of the table are out of view"
    cut = page.eval_on_selector_all("td.name", "cells => cells.filter(c => c.scrollWidth > c.clientWidth).length")
    assert cut == 0
    assert column(page, 1) == column(page, 1, "title")


def check_order(page):
    numbers = [int(name.split(".")[2]) for name in column(page, 1)]
    assert numbers == list(range(300)), numbers
    layers = page.eval_on_selector_all(".group .name", "names => names.map(name => name.innerText)")
    assert layers == [f"model.layers.{number}" for number in range(300)], layers


def check_scale(page):
    """All dots are on one scale, and the ticks above them too."""
    places = page.eval_on_selector_all(
        ".ticks, .dots", "all => all.map(e => e.getBoundingClientRect()).map(r => `${r.left} ${r.width}`)"
    )
    assert len(places) > 20 and len(set(places)) == 1, set(places)
    assert page.is_visible(".ticks") and page.locator(".dots").first.bounding_box()["width"] > 100
    ticks = page.eval_on_selector_all(".ticks span", "all => all.map(tick => tick.innerText)")
    assert ticks == ["0 dB", "20 dB", "40 dB", "60 dB"], ticks
    sides = page.eval_on_selector_all(
        ".ticks span", "all => all.map(t => t.getBoundingClientRect()).map(r => [r.left, r.right])"
    )
    assert all(one[1] < next_one[0] for one, next_one in zip(sides, sides[1:])), f"ticks overlap: {sides}"


def check_tapping(page):
    """A row that is tapped stays where it is, or moves a little so that its details are seen."""
    page.eval_on_selector(
        ".tensors .scroll", "box => scrollTo(0, box.getBoundingClientRect().bottom + scrollY - innerHeight)"
    )
    for number in (3, 2, 4):
        before = page.evaluate("scrollY")
        row = page.locator(f"#table tbody tr:nth-child({number})")
        row.click()
        moved = page.evaluate("scrollY") - before
        assert 0 <= moved < 200, f"the page jumps by {moved} pixels"
        assert 0 < row.bounding_box()["y"] < page.locator("#detail dl").bounding_box()["y"] < 844
    assert moved == 0


def check_legend(page):
    legend = page.inner_text("#legend")
    for text in ("bytes before", "bytes after", "higher is better", "the lowest tenth"):
        assert text in legend, legend


def check_codes(page):
    def marks():
        return page.eval_on_selector_all(
            "#detail svg:has(.codes) > text", "all => all.map(t => [t.textContent, Number(t.getAttribute('x'))])"
        )

    def bars():
        return dict(
            page.eval_on_selector_all(
                "#detail .codes rect",
                """all => all.map(r => [r.textContent.split(':')[0],
                   Number(r.getAttribute('x')) + Number(r.getAttribute('width')) / 2])""",
            )
        )

    choose(page, "int4")
    assert [text for text, _ in marks()] == ["-8", "0", "7"], marks()
    assert set(bars()) == {str(code) for code in range(-7, 8)}
    for text, x in marks()[1:]:
        assert abs(bars()[text] - x) < 0.1, (text, x, bars())
    choose(page, "int8")
    assert [text for text, _ in marks()] == ["-128", "0", "127"], marks()
    assert abs(bars()["0 to 3"] - marks()[1][1]) < 0.1 and "124 to 127" in bars()
    titles = page.eval_on_selector_all("#detail rect", "all => all.map(r => r.textContent)")
    assert not any("0.0 %" in title.split(":")[1] for title in titles)
    assert "124 to 127: < 0.1 %" in titles, titles
    assert "sampled" in page.inner_text("#detail")
    choose(page, "whole")
    assert "sampled" not in page.inner_text("#detail") and "all 64" in page.inner_text("#detail")


def check_shapes(page):
    """The sparsity picture has the shape of the matrix: the first extent by all others, up to 4 : 1."""
    for name, ratio in {"wide": 2, "tall": 1 / 4, "kernels": 9 / 8}.items():
        choose(page, name)
        box = page.locator("#detail canvas").bounding_box()
        assert abs(box["width"] / box["height"] / ratio - 1) < 0.03, (name, box)
        assert max(box["width"], box["height"]) < 170


def check_names(page):
    """Names cannot turn the text around them."""
    seen = "turned\\u202e.\\x1b\\nweight"
    assert seen in column(page, 1) and seen in column(page, 1, "title")
    assert page.locator("td.name > bdi").count() == len(column(page, 1))
    page.locator("#table tbody tr", has_text="turned").click()
    assert page.inner_text("#detail h3 > bdi") == seen
    assert TURNED not in page.inner_text("body") and "\u202e" not in page.inner_text("body")
    assert seen.split(".")[0] in page.eval_on_selector_all(".group bdi", "all => all.map(name => name.innerText)")


# Text that is seen, and the lowest contrast among it.
CONTRAST = """() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = colour => numbers(colour).slice(0, 3).map(v => v / 255)
    .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  let least = [Infinity, ""];
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const element = texts.currentNode.parentElement, style = getComputedStyle(element);
    if (!texts.currentNode.data.trim() || !element.checkVisibility() || element.closest("script, title")) continue;
    let behind = element;
    while (numbers(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
    const pair = [light(element.namespaceURI.endsWith("svg") ? style.fill : style.color),
      light(getComputedStyle(behind).backgroundColor)].sort((a, b) => b - a);
    const contrast = (pair[0] + .05) / (pair[1] + .05);
    if (contrast < least[0]) least = [contrast, texts.currentNode.data];
  }
  return least;
}"""


def check_contrast(page):
    page.locator(".group .db.bad").first.click()
    page.click("text=show every tensor")
    page.locator(".group .db.bad").first.click()
    for row in ("tr.compressed", "tr.kept"):
        page.locator(row).first.click()
        page.mouse.move(0, 0)
        contrast, text = page.evaluate(CONTRAST)
        assert contrast >= 4.5, f"{text} has a contrast of {contrast:.2f}"


def check_finding(page, tensors):
    page.fill("#filter", "DOWN_PROJ")
    assert page.locator("#table tbody tr").count() == 22
    assert "22 of" in page.inner_text("#more")
    page.click("text=show every tensor")
    assert page.locator("#table tbody tr").count() == tensors
    assert page.locator(".group").count() == 22 + 2
    page.locator(".group", has_text="model.layers.3").click()
    assert page.locator("#table tbody tr").count() == 9
    assert page.inner_text("#detail h3").startswith("model.layers.3.mlp.")
    page.click("#grouping button:has-text('by kind')")
    assert page.locator(".group").count() == 9 + 2
    assert page.locator("#table tbody tr").count() == tensors


def check_colours(page):
    def paper():
        return page.evaluate("() => getComputedStyle(document.body).backgroundColor")

    seen = [paper()]
    for expected in ("light", "dark"):
        page.click("#theme")
        assert page.inner_text("#theme") == expected
        seen.append(paper())
    assert seen[0] == seen[1] != seen[2], seen
    page.click("#theme")
    assert page.inner_text("#theme") == "auto" and paper() == seen[0]


def check_width(page, name):
    wide = page.evaluate("() => document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{name} scrolls sideways by {wide} pixels"


def main():
    pith, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    pages = make_pages(pith, folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        with Visit(browser, pages["model"]) as page:
            tensors = len(make_report(22)["tensors"])
            assert page.locator("#table tbody tr").count() == tensors
            assert "2.99" in page.inner_text("h1"), page.inner_text("h1")
            assert page.text_content("#outside") == ""
            check_legend(page)
            check_scale(page)
            check_columns(page)
            check_keyboard(page)
            check_sorting(page)
            check_choosing(page)
            check_finding(page, tensors)
            check_colours(page)
        with Visit(browser, pages["one"]) as page:
            assert page.inner_text("#detail h3") == HOSTILE
            assert page.locator("img").count() == 0
        with Visit(browser, pages["large"]) as page:
            assert page.locator(".group").count() == 111 + 2
            assert page.locator("#table tbody tr").count() == 300
            page.click("text=show all")
            assert page.locator("#table tbody tr").count() == len(make_report(111)["tensors"])
        with Visit(browser, pages["model"], "tablet") as page:
            check_scale(page)
        with Visit(browser, pages["model"], "phone") as page:
            check_scale(page)
            check_tapping(page)
        for colours in ("light", "dark"):
            with Visit(browser, pages["model"], colours=colours) as page:
                check_contrast(page)
        with Visit(browser, pages["sorted"]) as page:
            check_first_sight(page)
            check_columns(page)
            check_order(page)
        with Visit(browser, pages["odd"]) as page:
            check_codes(page)
            check_shapes(page)
            check_names(page)
            assert "2,000 bytes of the output (" in page.inner_text("#outside"), page.inner_text("#outside")
        with Visit(browser, pages["kept"]) as page:
            assert "Nothing was compressed" in page.inner_text("h1") and "0.2 % larger" in page.inner_text("h1")
        with Visit(browser, pages["empty"]) as page:
            assert page.is_visible("h1") and not page.is_visible("#table")
        for name, path in pages.items():
            for size in SIZES:
                for colours in ("light", "dark"):
                    with Visit(browser, path, size, colours) as page:
                        check_width(page, f"{name} on a {size}")
                        page.screenshot(path=folder / f"{name}-{size}-{colours}.png", full_page=True)
        browser.close()
    print(f"the report works in Chromium; pictures are in {folder}")


main()
