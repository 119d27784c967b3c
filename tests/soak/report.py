"""The report of a soak."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tests.soak.judge import Account
from tests.soak.plan import LANES
from tests.soak.producer_reports import ProducerReport
from tests.soak.samples import AT_REST, OF_WORKERS, TOLERANCES, WITHOUT, Series
from tests.soak.slopes import after_warm_up, line

_COLUMNS = (
    ("acknowledged", ("acknowledged", "committed")),
    ("refused", ("refused",)),
    ("aborted", ("aborted",)),
    ("unknown", ("unknown", "not reported")),
    ("dropped", ("dropped",)),
    ("stored", ("stored",)),
    ("twice, as may be", ("doubled", "doubled after an error")),
)


def table(accounts: Iterable[tuple[Account, ProducerReport]]) -> str:
    """Return a line for each producer."""
    heads = "".join(f"{head:>{max(13, len(head) + 2)}}" for head, _ in _COLUMNS)
    lines = [f"{'':30}{heads}{'new runs':>11}{'findings':>10}"]
    sums: Counter[str] = Counter()
    for account, reported in accounts:
        cells = ""
        for head, keys in _COLUMNS:
            count = sum(account.counts[key] for key in keys)
            sums[head] += count
            cells += f"{count:>{max(13, len(head) + 2)}}"
        found = sum(account.findings.values())
        lines.append(f"{account.producer.name:30}{cells}{reported.deaths:>11}{found:>10}")
    total = "".join(f"{sums[head]:>{max(13, len(head) + 2)}}" for head, _ in _COLUMNS)
    lines.append(f"{'all':30}{total}")
    return "\n".join(lines)


def reasons(accounts: Iterable[tuple[Account, ProducerReport]]) -> str:
    """Return why records failed, by client: the most frequent texts."""
    found: dict[str, Counter[str]] = {}
    for account, reported in accounts:
        found.setdefault(account.producer.client, Counter()).update(reported.why)
    return "\n".join(
        f"  {client}: " + ", ".join(f"{text} ({count})" for text, count in why.most_common(6))
        for client, why in found.items()
        if why
    )


def uses(series: Series) -> tuple[str, list[str]]:
    """Return a line for each resource of the lasting gateway, and findings for growth."""
    lines, findings = [], []
    for what, samples in series.items():
        counted = after_warm_up(samples)
        found = line(counted)
        if found is None:
            findings.append(f"{what}: no samples")
            continue
        text = f"  {what:36} {found.mean:8.1f} on average, {found.per_hour:+9.1f} an hour"
        tolerance = TOLERANCES.get(what)
        if tolerance is None:
            lines.append(f"{text}   (not judged)")
            continue
        is_flat = found.is_flat(tolerance)
        seconds = counted[-1][0] - counted[0][0]
        lines.append(
            f"{text}   {'flat' if is_flat else 'NOT FLAT'}: {found.rise:+.1f} in {seconds:.0f} s "
            f"(may be {tolerance.rise:g}, or {tolerance.per_hour:g} an hour)"
        )
        if not is_flat:
            findings.append(f"{what} is not flat: {found.per_hour:+.1f} an hour")
    if OF_WORKERS not in series:
        findings.append("no samples of the lasting gateway")
    return "\n".join([*lines, f"  {WITHOUT}"]), findings


def at_rest(before: Mapping[str, float], after: Mapping[str, float]) -> tuple[str, list[str]]:
    """Compare the resources without clients, before and after."""
    lines, findings = [], []
    for what, tolerance in AT_REST.items():
        more = after[what] - before[what]
        is_back = more <= tolerance
        lines.append(
            f"  {what:36} {before[what]:8.0f} before, {after[what]:.0f} after the clients   "
            f"{'back' if is_back else 'NOT BACK'} (may be {tolerance} more)"
        )
        if not is_back:
            findings.append(f"{what}: {more:+.0f} when all clients have gone")
    return "\n".join(lines), findings


def shortfalls(
    accounts: Sequence[tuple[Account, ProducerReport]], done: Mapping[str, int]
) -> list[str]:
    """Return the faults and outcomes that never occurred: the soak has not tested them."""
    found = [
        f"{account.producer.name} has no acknowledged record"
        for account, _ in accounts
        if not account.counts["acknowledged"] + account.counts["committed"]
    ]
    counts: Counter[str] = Counter()
    for account, _ in accounts:
        counts.update(account.counts)
    found += [f"no record was {what}" for what in ("refused", "dropped") if not counts[what]]
    tried = {
        lane
        for lane, fault_lane in LANES.items()
        if any(done.get(kind) for kind in fault_lane.kinds)
    }
    return found + [f"no fault of: {lane}" for lane in LANES if lane not in tried]


def not_reached(planned: Iterable[str], done: Mapping[str, int]) -> str:
    """Return the planned faults for which there was no time."""
    rest = Counter(planned) - Counter(done)
    return ", ".join(f"{count} x {kind}" for kind, count in sorted(rest.items()))
