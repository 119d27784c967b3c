"""The screen of `penstock top`: what fits, the most important first."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from rich.console import Group
from rich.table import Table
from rich.text import Text

from penstock.cli.output.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

NOT_STORED: Final = ("refused", "failed", "postponed")
STORED: Final = ("marked", "quarantined")
WOULD: Final = ("would_refuse", "would_fail", "would_postpone")
_BARS: Final = "▁▂▃▄▅▆▇█"
_ROWS_WITHOUT_HEIGHT: Final = 20
_LINES_ABOVE: Final = 12
"""The lines above the refusals, and the line below them."""
_CLIENT_FROM_WIDTH: Final = 100
_NO_LIMIT: Final = 2**31 - 1


def screen(state: Mapping[str, Any], width: int, height: int | None, trouble: str = "") -> Group:
    """Return the screen.

    Args:
        state: The response of the gateway's console (`/api/state`).
        width: Columns of the terminal.
        height: Its lines; None if it is printed once.
        trouble: Why it is not up to date.
    """
    rows = state["refusals"]["rows"]
    troubles = [*state["ready"]["missing"], *state["ready"]["troubles"]]
    troubles = [trouble, *troubles] if trouble else troubles
    shown_troubles = troubles[: 3 if height is None else 2]
    room = _ROWS_WITHOUT_HEIGHT
    if height is not None:
        room = max(1, height - _LINES_ABOVE - len(shown_troubles))
    parts = [
        _head(state, stale=bool(trouble)),
        *(
            Text(f"! {printable(text)}", "red", no_wrap=True, overflow="ellipsis")
            for text in shown_troubles
        ),
        Text(),
        _figures(state),
        Text(),
        _history(state["history"]["points"], width),
        Text(),
        _refusals(rows[:room], width) if rows else Text("Nothing has been refused.", "dim"),
    ]
    if height is not None:
        parts.append(Text("q ends", "dim"))
    return Group(*parts)


def _head(state: Mapping[str, Any], *, stale: bool) -> Text:
    about, is_ready, reload = state["gateway"], state["ready"]["is_ready"], state["reload"]
    head = Text(no_wrap=True, overflow="ellipsis")
    head.append(f"{_clock(state['at'])} ", "red" if stale else "")
    head.append("penstock ", "bold")
    head.append(f"{printable(about['host'])}  ")
    head.append("ready" if is_ready else "not ready", "green" if is_ready else "bold red")
    head.append(f"  up {_span(state['at'] - about['started'])}")
    if reload is not None:
        head.append(f"  {_clock(reload['at'])} ", "dim")
        worked = reload["worked"]
        head.append("reloaded" if worked else "reload failed", "" if worked else "bold red")
    head.append(f"  {printable(about['listener'])}", "dim")
    return head


def _figures(state: Mapping[str, Any]) -> Table:
    """Return the figures, in three columns that fit into 80."""
    rates, totals = state["rates"], state["totals"]
    workers, held = state["workers"], state["held_bytes"]
    connections = state["connections"]
    judging = workers["states"].get("ready", 0) + workers["states"].get("blocked", 0)
    reachable = sum(1 for broker in state["brokers"] if broker["reachable"])
    limit = connections["limit"]
    columns: Sequence[Sequence[tuple[str, str]]] = (
        (
            ("accepted", _rate(rates["records"].get("accepted", 0), totals.get("accepted", 0))),
            ("refused", _rate(_sum(rates["records"], NOT_STORED), _sum(totals, NOT_STORED))),
            ("would refuse", _rate(_sum(rates["records"], WOULD), _sum(totals, WOULD))),
            ("requests", f"{_short(rates['requests'])}/s"),
        ),
        (
            ("produce", _latency(rates["produce"])),
            ("waiting", _latency(rates["waiting"])),
            ("judging", _latency(rates["judging"])),
            ("broker", _latency(rates["broker"])),
        ),
        (
            (
                "clients",
                f"{sum(connections['states'].values())}"
                + ("" if limit >= _NO_LIMIT else f" of {limit}"),
            ),
            ("held", f"{_bytes(held['held'])}, {100 * held['held'] / (held['limit'] or 1):.0f} %"),
            ("workers", f"{judging}, {workers['waiting']} wait"),
            ("brokers", f"{reachable} of {len(state['brokers'])}"),
        ),
    )
    table = Table.grid(padding=(0, 1))
    for _ in columns:
        table.add_column(style="dim", no_wrap=True)
        table.add_column(no_wrap=True, min_width=13)
    for row in zip(*columns, strict=True):
        table.add_row(*(Text(text) for pair in row for text in pair))
    return table


def _history(points: Sequence[Mapping[str, Any]], width: int) -> Group:
    """Return two lines of bars: accepted and refused records of the last hour."""
    room = max(10, width - 32)
    lines = []
    for name, outcomes, style in (
        ("accepted", ("accepted",), "green"),
        ("refused", NOT_STORED, "red"),
    ):
        values = [_sum(point["records"], outcomes) for point in points]
        bars = _bars(values, room)
        line = Text(f"{name:<9}", "dim", no_wrap=True, overflow="crop")
        line.append(bars, style)
        line.append(f"  {_short(max(values, default=0))}/s at most", "dim")
        lines.append(line)
    return Group(*lines)


def _bars(values: Sequence[float], room: int) -> str:
    """Return a bar for each of some groups of points, the last bar at the end."""
    each = max(1, -(-len(values) // room))
    start = len(values) % each
    groups = [values[:start]] if start else []
    groups += [values[at : at + each] for at in range(start, len(values), each)]
    tops = [max(group) for group in groups]
    most = max(tops, default=0)
    return "".join(
        _BARS[min(len(_BARS) - 1, int(top / most * len(_BARS)))] if top else " " for top in tops
    ).rjust(min(room, 20))


def _refusals(rows: Iterable[Mapping[str, Any]], width: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), expand=True, header_style="dim")
    with_client = width >= _CLIENT_FROM_WIDTH
    table.add_column("seen", no_wrap=True, width=8)
    table.add_column("times", justify="right", no_wrap=True, width=7)
    table.add_column("topic", no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column("why", no_wrap=True, overflow="ellipsis", ratio=5)
    if with_client:
        table.add_column("client", no_wrap=True, overflow="ellipsis", ratio=2)
    for row in rows:
        style = "yellow" if row["observed"] else ""
        stored = f"{row['outcome']}: " if row["outcome"] in STORED else ""
        why = Text("would be refused: " if row["observed"] else stored, style)
        why.append(printable(row["message"] or "(no message)"))
        why.append(f"  {printable(row['policy'])}", "dim")
        cells = [
            Text(_clock(row["last"]), "dim"),
            Text(_short(row["count"])),
            Text(printable(row["topic"])),
            why,
        ]
        if with_client:
            client = "(no client id)" if row["client"] is None else printable(row["client"])
            cells.append(Text(client, "dim"))
        table.add_row(*cells)
    return table


def _sum(counts: Mapping[str, float], names: Iterable[str]) -> float:
    return sum(counts.get(name, 0) for name in names)


def _rate(rate: float, total: float) -> str:
    return f"{_short(rate)}/s, {_short(total)}"


def _latency(times: Mapping[str, float | None]) -> str:
    if times["p50"] is None:
        return "none"
    return f"{_seconds(times['p50'])}, 99 % {_seconds(times['p99'])}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "none"
    return f"{value * 1000:.3g} ms" if value < 1 else f"{value:.3g} s"


def _short(value: float) -> str:
    for size, name in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            unit = 1e3 if name == "k" else size
            return f"{value / unit:.3g}{name}"
    return f"{value:.0f}" if value == int(value) or value >= 10 else f"{value:.2g}"


def _bytes(value: float) -> str:
    for size, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.0f} B"


def _span(seconds: float) -> str:
    for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {name}"
    return f"{max(0.0, seconds):.0f} s"


def _clock(at: float) -> str:
    return time.strftime("%H:%M:%S", time.localtime(at))
