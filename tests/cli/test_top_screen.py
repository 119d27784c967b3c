"""The screen of `penstock top` fits the terminal, and has no control characters."""

import io

import pytest
from rich.console import Console

from penstock.cli.output.top_screen import screen
from tests.cli.states import point, row, state


def drawn(shown, width=80, height=24, trouble=""):
    output = io.StringIO()
    console = Console(file=output, width=width, height=height, force_terminal=False)
    console.print(screen(shown, width, height, trouble))
    return output.getvalue()


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 50), (60, 16), (200, 24)])
def test_the_screen_fits_any_terminal(width, height):
    rows = [row("x" * 300, topic="t" * 249, id=number) for number in range(300)]
    troubles = [f"broker {number} cannot be reached: {'y' * 200}" for number in range(9)]
    shown = state(
        refusals={"rows": rows, "others": 0},
        history={"points": [point(minute, minute) for minute in range(360)]},
        ready={"is_ready": False, "missing": troubles[:4], "troubles": troubles[4:]},
    )
    lines = drawn(shown, width, height).splitlines()

    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert "q ends" in lines[-1]


def test_the_counts_are_shown():
    text = drawn(state())
    assert "penstock kafka-gateway-1  ready  up 3 h  PLAINTEXT://0.0.0.0:9192" in text
    assert "100/s" in text
    assert "1234/s, 10M" in text
    assert "0.5/s, 77" in text
    assert "1.23 ms, 99 % 1.5 s" in text
    assert "1.5 kB, 0 %" in text
    assert "2, 4 wait" in text
    assert "1 of 2" in text
    assert "orders" in text
    assert "12.3k" in text
    assert "no  policy.Orders" in text


def test_observed_refusals_are_labelled():
    assert "would be refused: no" in drawn(
        state(refusals={"rows": [row(observed=True)], "others": 0})
    )


def test_stored_records_are_labelled():
    rows = [row(outcome="quarantined")]
    assert "quarantined: no" in drawn(state(refusals={"rows": rows, "others": 0}))


def test_a_gateway_without_refusals_is_shown():
    assert "Nothing has been refused." in drawn(state(refusals={"rows": [], "others": 0}))


def test_problems_and_a_failed_reload_are_shown():
    text = drawn(state(reload={"at": 0.0, "worked": False, "why_not": "x"}), trouble="it is away")
    assert "reload failed" in text
    assert "! it is away" in text


@pytest.mark.parametrize(
    "text", ["\x1b[2J", "\x1b]0;title\x07", "\r\nroot#", "\u202eevil", "\x9b31m"]
)
def test_control_characters_are_replaced(text):
    rows = [row(text, topic=text, policy=text, client=text)]
    shown = state(refusals={"rows": rows, "others": 0})
    shown["gateway"] = {"host": text, "listener": text, "started": 1.0}
    shown["ready"] = {"is_ready": False, "missing": [text], "troubles": []}
    assert text not in drawn(shown, width=120, trouble=text)


def test_markup_is_shown_as_text():
    rows = [row("[red]x[/red] [link=http://evil]", topic="[bold]")]
    shown = drawn(state(refusals={"rows": rows, "others": 0}), width=120)
    assert "[red]x[/red]" in shown
    assert "[bold]" in shown


def test_the_screen_printed_once_has_no_line_of_keys():
    output = io.StringIO()
    Console(file=output, width=80).print(screen(state(), 80, None))
    assert "q ends" not in output.getvalue()
