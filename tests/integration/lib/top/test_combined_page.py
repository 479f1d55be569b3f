"""The page of several components in a browser: what it shows, by the rules of the other pages."""

import asyncio
import json
import time

import aiohttp
import pytest

from edge_sidecars.runtime.cli.values import Address
from edge_sidecars.top.combined_page import listening
from edge_sidecars.top.followed import Followed, following
from tests.integration.lib.runtime.page_documents import MARKUP, NOW, STATES
from tests.integration.lib.runtime.test_drawn_pages import WIDTHS, check
from tests.integration.lib.top.shown_components import ShownComponent, shown
from tools.harness.browser import AXE, Lacking, open_browser
from tools.harness.controlplane.build import BuildError
from tools.harness.controlplane.fixtures import lack

ANYWHERE = Address("127.0.0.1", 0)


def followed(addresses: list[str]) -> list[Followed]:
    return [Followed(it, f"http://{it}") for it in addresses]


@pytest.mark.slow
def test_one_page_has_all_components_in_each_width_and_scheme(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With the clock of the recorded documents. Also a component that never answered."""
    monkeypatch.setattr("time.time", lambda: NOW)
    if AXE.missing:
        lack(f"{AXE.missing[0]} is missing: run make test-deps")

    async def draw() -> None:
        lc = ShownComponent("lc", STATES["lc"][0].status)
        elector = ShownComponent("elector", STATES["elector"][0].status)
        others = [ShownComponent(it, STATES[it][0].status) for it in ("relay", "pool", "gm")]
        async with shown(elector, lc, *others) as addresses:
            components = followed([*addresses, "127.0.0.1:9"])
            async with (
                listening(components, ANYWHERE) as bound,
                following(components, lambda: None),
                open_browser() as browser,
                browser.tab() as tab,
            ):
                shows = ("web-0 leads", "The link is up", "This GM leads", MARKUP, "refused")
                for width, dark in zip(WIDTHS, (True, False), strict=True):
                    try:
                        await check(tab, f"http://{bound}/", shows, width=width, dark=dark)
                    finally:
                        await tab.keep(f"top-{width}")
                lc.status = STATES["lc"][1].status
                await tab.wait_for(_says("The link to the relay is down"))
                await elector.listener.close()
                await tab.wait_for(_says("Old: "))
                assert await tab.evaluate(_says("web-0 leads"))
                assert await tab.evaluate("window.problems") == []
                assert await tab.violations() == ""

    try:
        asyncio.run(draw())
    except Lacking as error:
        lack(str(error))
    except BuildError as error:
        lack(f"axe-core: {error}")


def _says(text: str) -> str:
    return f"document.querySelector('main').innerText.includes({json.dumps(text)})"


def test_it_has_the_scripts_of_all_components_and_the_policy_of_each_page() -> None:
    async def ask() -> None:
        async with listening([], ANYWHERE) as bound, aiohttp.ClientSession() as session:
            for name in ("top", *STATES, "shell", "page"):
                async with session.get(f"http://{bound}/page/{name}.js") as answer:
                    assert answer.status == 200, name
                    policy = answer.headers["Content-Security-Policy"]
                    assert policy.startswith("default-src 'none'; script-src 'self'")
            headers = {"Host": "rebound.example.com"}
            async with session.get(f"http://{bound}/status", headers=headers) as answer:
                assert answer.status == 403
            async with session.post(f"http://{bound}/status") as answer:
                assert answer.status == 405

    asyncio.run(ask())


def test_a_change_of_a_component_is_in_the_document_within_two_ticks() -> None:
    """Of its own page, and of this one."""

    async def watch() -> None:
        gm = ShownComponent("gm", STATES["gm"][0].status)
        news = asyncio.Event()
        async with shown(gm) as addresses:
            [it] = components = followed(addresses)
            async with following(components, news.set):
                while it.status is None:
                    await _next(news)
                took = []
                for number in range(5):
                    gm.status = {**STATES["gm"][0].status, "mode": f"mode-{number}"}
                    began = time.monotonic()
                    while it.status["mode"] != f"mode-{number}":
                        await _next(news)
                    took.append(time.monotonic() - began)
                assert min(took) <= 0.3, took

    asyncio.run(watch())


async def _next(news: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await news.wait()
    news.clear()
