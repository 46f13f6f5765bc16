"""The page in a real browser: nothing to complain about, no network, and readable on a telephone."""

import pytest

from tests.browser.chromium import prepare, tab
from tests.programs import ProgramMissing

pytestmark = pytest.mark.browser

WIDER_THAN_THE_PAGE = """
[...document.querySelectorAll('body *')]
  .filter(e => !e.closest('thead') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.tagName + ' ' + e.textContent.slice(0, 40))
"""
SMALLEST_TEXT = """
Math.min(...[...document.querySelectorAll('text, p, td, th, li, dd')]
  .filter(e => e.textContent && e.getBoundingClientRect().height)
  .map(e => parseFloat(getComputedStyle(e).fontSize)))
"""
COLOURS = "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]"
DRAWN = "[...document.querySelectorAll('svg[role=img]')].map(e => e.getBoundingClientRect().width)"
ONE_TONE = """
for (const name of ['candidate', 'active', 'limit', 'pass', 'fail', 'unknown', 'waived', 'muted'])
  document.documentElement.style.setProperty('--' + name, '#1c2128')
"""
"""Whatever the palette makes of a reader's eyes, or a printer of the palette: one colour is the worst of it."""
ALONE = """
const probe = document.getElementById('probe') ?? document.body.appendChild(document.createElement('div'))
probe.id = 'probe'
Object.assign(probe.style, {position: 'fixed', left: 0, top: 0, zIndex: 9, background: 'white'})
probe.replaceChildren([...document.querySelectorAll('%s')][%d].cloneNode(true))
"""
DASHES = "['candidate', 'active'].map(n => getComputedStyle(document.querySelector(`polyline.${n}`)).strokeDasharray)"


@pytest.fixture(scope="session")
def chromium(request):
    capture = request.config.pluginmanager.getplugin("capturemanager")
    try:
        with capture.global_and_fixture_disabled():
            return prepare()
    except ProgramMissing as error:
        pytest.fail(str(error), pytrace=False)


@pytest.fixture
async def browser(chromium, tmp_path):
    async with tab(chromium, tmp_path / "profile") as opened:
        yield opened


@pytest.fixture
def page(tmp_path):
    def write(decided):
        path = tmp_path / "report.html"
        path.write_text(decided.report("html"))
        return path.as_uri()

    return write


@pytest.mark.parametrize("decision", ["rejected", "hostile"])
async def test_a_page_loads_nothing_complains_about_nothing_and_fits_every_width(browser, page, decision, request):
    address = page(request.getfixturevalue(decision))
    for width in (320, 400, 768, 1030, 1280):
        await browser.open(address, width=width)
        assert await browser.evaluate("document.documentElement.scrollWidth") <= width
        assert await browser.evaluate(WIDER_THAN_THE_PAGE) == []
        assert await browser.evaluate(SMALLEST_TEXT) >= 12
        assert min(await browser.evaluate(DRAWN)) >= min(0.75 * width, 240)
        assert browser.complaints == []
        assert browser.requested == [address]


async def test_light_and_dark_follow_the_reader(browser, page, rejected, tmp_path):
    address, seen = page(rejected), {}
    for scheme in ("light", "dark"):
        await browser.open(address, scheme=scheme)
        seen[scheme] = await browser.evaluate(COLOURS)
        await browser.screenshot(tmp_path / f"{scheme}.png")
        assert (tmp_path / f"{scheme}.png").stat().st_size > 20_000
    assert seen["light"] == ["rgb(255, 255, 255)", "rgb(28, 33, 40)"]
    assert seen["dark"] == ["rgb(13, 17, 23)", "rgb(230, 237, 243)"]


async def shapes(browser, selector):
    """What each element looks like at one and the same place."""
    clip = {"x": 0, "y": 0, "width": 40, "height": 40, "scale": 2}
    for index in range(await browser.evaluate(f"document.querySelectorAll('{selector}').length")):
        await browser.evaluate("{" + ALONE % (selector, index) + "}")
        yield (await browser.call("Page.captureScreenshot", format="png", clip=clip))["data"]


async def test_sides_and_outcomes_are_told_apart_without_any_colour(browser, page, rejected):
    await browser.open(page(rejected))
    await browser.evaluate(ONE_TONE)
    for selector in (".keys .key", "h1 .sign, .forest .sign.pass, .forest .sign.unknown"):
        seen = [shape async for shape in shapes(browser, selector)]
        assert len(set(seen)) == len(seen) >= 3, selector
        assert [shape async for shape in shapes(browser, selector)] == seen, "the same again looks the same"
    solid, dashed = await browser.evaluate(DASHES)
    assert solid != dashed
