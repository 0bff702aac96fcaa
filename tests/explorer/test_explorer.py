"""What a reader does with the page, in a real browser; what it shows is compared with the weights."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.explorer.conftest import contrast

from allyouneed.explorer.page import attention_page
from allyouneed.tasks.attention_figures import head_colour
from allyouneed.tasks.attention_maps import KINDS, Attention

pytestmark = pytest.mark.browser

ROUNDING = 0.005
"""Of a weight whose square root is kept in 8 bits, and printed with three digits."""


def words(page: Any, side: str) -> list[str]:
    texts: list[str] = page.locator(f".{side} li").all_text_contents()
    return texts


def choose(page: Any, label: str) -> None:
    page.get_by_role("radio", name=label, exact=True).check()


def read_matrix(page: Any) -> np.ndarray:
    """The table behind the matrix."""
    if not page.locator(".behind table").count():
        page.get_by_text("As a table").click()
        page.locator(".behind table").wait_for()
    rows = page.locator(".behind tbody tr")
    cells = [row.locator("td").all_text_contents() for row in rows.all()]
    return np.array(cells, dtype=float)


def inked(page: Any, selector: str) -> int:
    """How many pixels of a canvas have another colour than its first."""
    count: int = page.evaluate(
        """selector => {
            const canvas = document.querySelector(selector);
            const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
            const pixels = new Uint32Array(data.buffer);
            return pixels.filter((pixel) => pixel !== pixels[0]).length;
        }""",
        selector,
    )
    return count


def address(page: Any) -> str:
    """The address that the page has now; `page.url` is what the browser has told so far."""
    found: str = page.evaluate("location.href")
    return found


def test_the_page_begins_with_the_words_and_where_the_decoder_looks(open_page: Any) -> None:
    page = open_page()
    assert page.locator("header").inner_text().split("\n\n")[-2:] == ["Two dogs run.", "Zwei Hunde rennen."]
    assert words(page, "queries") == ["Zwei", "Hunde", "rennen", ".", "</s>"]
    assert words(page, "keys") == ["Two", "dogs", "run", ".", "</s>"]
    assert page.title() == "Attention: Two dogs run."
    assert inked(page, ".lines canvas") > 1_000


def test_a_word_that_is_picked_shows_where_it_looks(open_page: Any, attention: Attention) -> None:
    page = open_page("#kind=encoder&layer=2&heads=3")
    before = inked(page, ".lines canvas")
    page.locator(".queries li").nth(1).click()
    page.mouse.move(0, 0)
    row = attention.in_words().encoder[1, 2, 1]
    strongest = row.argsort(descending=True)[:4].tolist()
    texts = [attention.source.words[place].text for place in strongest]
    said = page.locator(".readout").inner_text().removeprefix("dogs attends to ").split(" · ")
    assert [part.rsplit(" ", 1)[0] for part in said] == texts
    assert [float(part.rsplit(" ", 1)[1]) for part in said] == pytest.approx(
        row[strongest].tolist(), abs=2 * ROUNDING
    )
    assert page.locator(".queries li[aria-selected=true]").all_text_contents() == ["dogs"]
    assert 0 < inked(page, ".lines canvas") < before
    assert address(page).endswith("#kind=encoder&view=lines&layer=2&heads=3&from=2")
    page.locator(".queries li").nth(1).click()
    page.mouse.move(0, 0)
    assert inked(page, ".lines canvas") == before


def test_a_line_runs_from_the_word_that_looks_to_the_word_it_looks_at(
    open_page: Any, attention: Attention
) -> None:
    document = attention.document()
    weights = torch.zeros_like(attention.weights.encoder)
    weights[..., 0] = 1  # all pieces look at the first
    weights[1, 1, 3:8] = 0
    weights[1, 1, 3:8, 10] = 1  # but "dogs" at "run", in one head
    document["kinds"]["encoder"]["weights"] = weights.numpy()
    page = open_page("#kind=encoder&layer=2&heads=2&from=2", document)
    drawn = page.evaluate(
        """() => {
            const canvas = document.querySelector(".lines canvas"), context = canvas.getContext("2d");
            const red = (x, y) => context.getImageData(x, y, 1, 1).data[0];
            const ink = (x, y) => Math.abs(red(x, y) - red(0, 0));
            const width = canvas.width;  // words are 28 pixels apart
            return [ink(2, 42), ink(width / 2, 56), ink(width - 3, 70), ink(width - 3, 14)];
        }"""
    )
    assert min(drawn[:3]) > 20
    assert drawn[3] == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_matrix_has_the_weights_of_the_chosen_heads(
    open_page: Any, attention: Attention, kind: str
) -> None:
    page = open_page(f"#kind={kind}&view=matrix&layer=3&heads=2")
    expected = getattr(attention.in_words(), kind)[2].numpy()
    np.testing.assert_allclose(read_matrix(page), expected[1], atol=ROUNDING)
    page.get_by_role("button", name="Head 4").click()
    np.testing.assert_allclose(read_matrix(page), expected[[1, 3]].mean(0), atol=ROUNDING)
    page.get_by_role("button", name="All").click()
    np.testing.assert_allclose(read_matrix(page), expected.mean(0), atol=ROUNDING)


def test_layer_kind_and_pieces_can_be_switched(open_page: Any, attention: Attention) -> None:
    page = open_page("#view=matrix&heads=1")
    page.get_by_role("group", name="Layer").get_by_label("1").check()
    choose(page, "Decoder")
    expected = attention.in_words().decoder[0, 0]
    np.testing.assert_allclose(read_matrix(page), expected, atol=ROUNDING)
    choose(page, "Pieces")
    np.testing.assert_allclose(read_matrix(page), attention.weights.decoder[0, 0], atol=ROUNDING)
    choose(page, "Lines")
    assert words(page, "queries") == ["<s>", *"Zwei▁Hunde▁rennen."]


def test_a_decoder_of_another_depth_has_its_own_layers(open_page: Any, make_attention: Any) -> None:
    page = open_page("#layer=6", make_attention(layers=6, decoder=(0, 2)).document())
    layers = page.get_by_role("group", name="Layer").locator("label:visible")
    assert layers.all_text_contents() == ["1", "2"]
    assert page.get_by_role("radio", name="Decoder").count() == 0  # recurrent units attend to nothing
    choose(page, "Encoder")
    assert layers.all_text_contents() == ["1", "2", "3", "4", "5", "6"]
    choose(page, "5")
    choose(page, "Cross")
    assert page.get_by_role("radio", name="2", exact=True).is_checked()
    choose(page, "Measures")
    assert page.locator("tbody tr").count() == 2 * 4


def test_the_matrix_is_read_cell_by_cell_with_the_arrow_keys(open_page: Any, attention: Attention) -> None:
    page = open_page("#kind=encoder&view=matrix&layer=1&heads=1")
    page.locator("canvas").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    said = page.locator(".readout").inner_text()
    assert said.startswith("dogs attends to dogs ")
    expected = float(attention.in_words().encoder[0, 0, 1, 1])
    assert float(said.split()[-1]) == pytest.approx(expected, abs=ROUNDING)


def test_a_head_opens_on_a_click(open_page: Any) -> None:
    page = open_page("#view=heads&kind=decoder")
    assert page.locator(".thumbnails button").count() == 12
    assert inked(page, ".thumbnails canvas") > 5
    page.get_by_role("button", name="Layer 2, head 4: open").click()
    assert address(page).endswith("#kind=decoder&view=matrix&layer=2&heads=4")


def test_a_thumbnail_has_the_ink_of_the_weights_of_its_head(open_page: Any, attention: Attention) -> None:
    page = open_page("#view=heads&kind=cross")
    for choice, shown in (("Words", attention.in_words()), ("Pieces", attention.weights)):
        choose(page, choice)
        ink = (
            page.locator(".thumbnails canvas")
            .nth(6)
            .evaluate(
                """canvas => {
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                return Array.from(data).filter((_, place) => place % 4 === 3);
            }"""
            )
        )
        expected = 255 * shown.cross[1, 2].flatten().sqrt()
        np.testing.assert_allclose(ink, expected, atol=3)


def test_a_word_of_the_right_column_says_who_looks_at_it(open_page: Any, attention: Attention) -> None:
    page = open_page("#kind=cross&layer=1&heads=2,4")
    weights = attention.in_words().cross[0, [1, 3]]
    column = weights.mean(0)[:, 1]
    expected = [
        f"{attention.written.words[place].text} {float(column[place]):.2f}"
        for place in column.argsort(descending=True)[:4]
    ]
    said = f"dogs is attended to by {' · '.join(expected)}"
    assert page.locator(".readout").inner_text().startswith("Pick words on the left")
    page.locator(".keys li").nth(1).hover()
    assert page.locator(".readout").inner_text() == said
    page.locator(".keys li").nth(1).click()
    page.mouse.move(0, 0)
    assert page.locator(".readout").inner_text() == said
    page.get_by_text("As a table").click()
    page.locator(".behind table").wait_for()
    assert page.locator(".behind th[scope=col]").all_text_contents() == [
        *("Word", "attends to", "mean", "head 2", "head 4")
    ]
    rows = [row.split("\t") for row in page.locator(".behind tbody tr").all_inner_texts()]
    assert [row[1] for row in rows] == ["dogs"] * 5
    for name, _, mean, *of_heads in rows:
        place = [word.text for word in attention.written.words].index(name)
        assert float(mean) == pytest.approx(float(column[place]), abs=2 * ROUNDING)
        assert list(map(float, of_heads)) == pytest.approx(weights[:, place, 1].tolist(), abs=2 * ROUNDING)
    choose(page, "Matrix")
    page.locator(".behind table").wait_for()  # it is open in the next view, too


def test_words_that_are_cut_have_a_title(open_page: Any, make_attention: Any) -> None:
    page = open_page("#kind=encoder", make_attention(f"{'long' * 12} short", "x").document())
    for place, title in enumerate(("long" * 12, "")):
        page.locator(".queries li").nth(place).hover()
        assert page.locator(".queries li").nth(place).get_attribute("title") == title


def test_a_tap_on_a_cell_shows_its_value(open_page: Any, attention: Attention) -> None:
    page = open_page("#kind=encoder&view=matrix&layer=1&heads=1", has_touch=True, is_mobile=True)
    box = page.locator("canvas").bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 10, box["y"] + box["height"] - 10)
    page.wait_for_function("() => document.querySelector('.readout').textContent.includes('attends to')")
    said = page.locator(".readout").inner_text()
    assert said.startswith("</s> attends to </s> ")
    expected = float(attention.in_words().encoder[0, 0, -1, -1])
    assert float(said.split()[-1]) == pytest.approx(expected, abs=ROUNDING)


def test_focus_stays_in_the_picture_when_what_had_it_is_gone(open_page: Any) -> None:
    focused = "() => document.activeElement.getAttribute('aria-label')"
    page = open_page("#view=heads")
    page.get_by_role("button", name="Layer 2, head 4: open").press("Enter")
    assert page.evaluate(focused) == "Picture"
    page = open_page("#view=lines&from=1,2")
    page.get_by_role("button", name="Clear").press("Enter")
    assert page.evaluate(focused) == "Picture"
    assert "from" not in address(page)


def test_back_leads_to_the_view_before(open_page: Any) -> None:
    page = open_page("#view=heads&kind=decoder")
    page.get_by_role("button", name="Layer 2, head 4: open").click()
    choose(page, "Encoder")
    page.go_back()
    page.wait_for_selector(".thumbnails")
    assert "kind=decoder&view=heads" in address(page)
    page.go_forward()
    page.wait_for_selector(".scroll canvas")
    assert address(page).endswith("#kind=encoder&view=matrix&layer=2&heads=4")


def test_rows_sum_to_one_though_weights_are_rounded(open_page: Any, make_attention: Any) -> None:
    document = make_attention("a" * 50 + "," * 49, "x", 1, 1).document()
    document["kinds"]["encoder"]["weights"] = np.full((1, 1, 100, 100), 0.01)  # kept as 26 / 255 squared
    page = open_page("#kind=encoder&view=matrix", document)
    np.testing.assert_allclose(read_matrix(page), [[0.5, 0.49, 0.01]] * 3, atol=0.0006)


def test_a_head_has_its_colour_in_figures_too_and_its_number_can_be_read(
    open_page: Any, make_attention: Any
) -> None:
    document = make_attention(layers=1, heads=16).document()
    everything = ",".join(str(head) for head in range(1, 17))
    for scheme in ("light", "dark"):
        page = open_page(f"#heads={everything}", document, color_scheme=scheme)
        pairs = page.locator(".heads button[aria-label]").evaluate_all(
            """chips => {
                const context = document.createElement("canvas").getContext("2d");
                const bytes = (colour) => {
                    context.fillStyle = colour;
                    context.fillRect(0, 0, 1, 1);
                    return [...context.getImageData(0, 0, 1, 1).data.slice(0, 3)];
                };
                return chips.map((chip) => getComputedStyle(chip))
                    .map(({ backgroundColor, color }) => [bytes(backgroundColor), bytes(color)]);
            }"""
        )
        for head, (background, text) in enumerate(pairs):
            assert contrast(background, text) >= 4.5
            if scheme == "light":
                np.testing.assert_allclose(background, list(bytes.fromhex(head_colour(head)[1:])), atol=2)


def test_what_the_browser_cannot_do_is_told_in_words(
    browser: Any, attention: Attention, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_bytes(attention_page(attention.document()).encode())
    context = browser.new_context()
    context.add_init_script("delete globalThis.DecompressionStream")
    page = context.new_page()
    page.goto(path.as_uri())
    page.wait_for_function("() => document.querySelector('main').textContent")
    assert "cannot show the attention: ReferenceError" in page.locator("main").inner_text()
    context.close()
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    assert "allow scripts" in page.locator("body").inner_text()
    context.close()


def test_heads_are_sorted_by_a_measure(open_page: Any, attention: Attention) -> None:
    page = open_page("#kind=encoder&view=measures")
    entropy = attention.measures()["encoder"]["entropy"]
    order = entropy.flatten().argsort(descending=True).tolist()
    names = [f"Layer {place // 4 + 1}, head {place % 4 + 1}" for place in order]
    heads = page.locator("tbody th")
    assert heads.all_text_contents() != names
    page.get_by_role("button", name="Entropy").click()
    assert heads.all_text_contents() == names
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Entropy")
    printed = page.locator("tbody tr td:nth-child(2)").all_text_contents()
    assert [float(value) for value in printed] == pytest.approx(entropy.flatten()[order].tolist(), abs=0.0051)
    page.get_by_role("button", name="Entropy").click()
    assert heads.all_text_contents() == names[::-1]
    heads.first.get_by_role("button").click()
    assert "view=lines" in address(page)


def test_all_can_be_done_with_the_keyboard(open_page: Any) -> None:
    page = open_page()
    press = page.keyboard.press
    press("Tab")
    press("ArrowLeft")  # from cross-attention to that of the encoder
    assert "kind=encoder" in address(page)
    for key in ("Tab", "ArrowRight"):
        press(key)
    assert "view=matrix" in address(page)
    for key in ("ArrowLeft", "Tab", "ArrowRight", "Tab", "Tab", "Enter"):
        press(key)
    assert "view=lines&layer=3&heads=1" in address(page)
    page.locator(".queries li").first.focus()
    for key in ("ArrowDown", "ArrowDown", "Space", "End", "Enter"):
        press(key)
    assert address(page).endswith("&from=3,5")
    assert page.locator(".queries li").last.evaluate("node => node === document.activeElement")
    press("Escape")
    assert "from" not in address(page)


def test_the_address_restores_the_view(open_page: Any) -> None:
    fragments = [
        "#kind=decoder&view=lines&layer=3&heads=1,4&pieces=yes&from=2,7&to=1",
        "#kind=cross&view=measures&layer=1&sort=agreement&order=ascending",
    ]
    for fragment in fragments:
        page = open_page(fragment)
        choose(page, "Encoder")  # and back, within the page
        page.evaluate("fragment => { location.hash = fragment; }", fragment)
        page.wait_for_function("() => document.querySelector('input[name=kind]:checked').value !== 'encoder'")
        assert address(page).endswith(fragment)
        if "lines" in fragment:
            assert page.locator(".queries li[aria-selected=true]").all_text_contents() == ["Z", "H"]


@pytest.mark.parametrize(
    "fragment",
    ["#kind=toString&view=__proto__&layer=99&heads=0,-1,x,1e9&from=77&sort=constructor", "#%", "#=&&"],
)
def test_an_address_that_says_nothing_sensible_shows_the_beginning(open_page: Any, fragment: str) -> None:
    page = open_page(fragment)
    assert words(page, "queries") == ["Zwei", "Hunde", "rennen", ".", "</s>"]
    assert page.get_by_role("button", name="All").get_attribute("aria-pressed") == "true"


def test_it_is_dark_where_the_reader_wants_it(open_page: Any) -> None:
    backgrounds = []
    for scheme in ("light", "dark"):
        page = open_page(color_scheme=scheme)
        colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
        backgrounds.append(sum(int(part) for part in colour[4:-1].split(",")))
    assert backgrounds[0] > 700
    assert backgrounds[1] < 100


@pytest.mark.parametrize("view", ["lines", "matrix", "heads", "measures"])
def test_on_a_narrow_screen_nothing_is_cut_off_and_touch_picks(open_page: Any, view: str) -> None:
    narrow = {"width": 390, "height": 800}
    page = open_page(f"#view={view}", has_touch=True, is_mobile=True)
    page.set_viewport_size(narrow)
    page.wait_for_function("width => document.documentElement.scrollWidth <= width", arg=narrow["width"])
    if view == "lines":
        page.locator(".queries li").first.tap()
        assert address(page).endswith("from=1")


def test_a_notebook_shows_it_in_a_frame_that_works(browser: Any, attention: Attention) -> None:
    page = browser.contexts[0].new_page()
    page.set_content(f"<p>above</p>{attention._repr_html_()}")
    assert page.locator("iframe").get_attribute("title") == "Attention"
    frame = page.frame_locator("iframe")
    frame.locator("main[data-ready]").wait_for()
    frame.locator(".queries li").nth(1).click()
    frame.get_by_role("radio", name="Matrix").check()
    assert frame.locator(".readout").inner_text() == "Layer 2, mean of 4 heads. Frames mark the alignment."
    page.close()


def test_the_policy_lets_no_text_become_markup_or_a_script(browser: Any, attention: Attention) -> None:
    page = browser.contexts[0].new_page()
    page.set_content(attention_page(attention.document()))
    for attempt in ("document.body.innerHTML = '<b>x</b>'", "document.createElement('script').text = '1'"):
        refused = f"() => {{ try {{ {attempt}; }} catch (error) {{ return error.name; }} }}"
        assert page.evaluate(refused) == "TypeError"
    added = """() => new Promise((resolve) => {
        document.addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
        document.createElement("img").src = "https://example.org/x.png";
    })"""
    assert page.evaluate(added) == "img-src"
    page.close()
