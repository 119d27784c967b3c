"""The coverage of histories: events of batches in each state, and answers of the gateway."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.gateway.produce.producer_state.all_producers import Producers
from penstock.gateway.produce.producer_state.producer.batch import TRANSITIONS, Batch, Event, State

Seen = Counter[tuple[str, ...]]


@contextmanager
def counted(seen: Seen) -> Iterator[None]:
    """Count the events in a block."""
    apply, decide = Batch.apply, Producers.decide
    acknowledge, send = Producers.acknowledge, Producers.send

    def counting_apply(batch: Batch, event: Event) -> None:
        seen[batch.state.name, event.name] += 1
        apply(batch, event)

    def answer(what, call):
        def counting(producers, *arguments, **named):
            found = call(producers, *arguments, **named)
            if isinstance(found, int):
                seen["answer", what, str(found)] += 1
            return found

        return counting

    Batch.apply = counting_apply  # type: ignore[method-assign]
    Producers.decide = answer("decide", decide)  # type: ignore[method-assign]
    Producers.send = answer("send", send)  # type: ignore[method-assign]
    Producers.acknowledge = answer("acknowledge", acknowledge)  # type: ignore[method-assign]
    try:
        yield
    finally:
        Batch.apply = apply  # type: ignore[method-assign]
        Producers.decide, Producers.send = decide, send  # type: ignore[method-assign]
        Producers.acknowledge = acknowledge  # type: ignore[method-assign]


def legal() -> set[tuple[str, str]]:
    """Return the states with the events that are legal in them."""
    return {(state.name, event.name) for state, events in TRANSITIONS.items() for event in events}


def table(seen: Seen) -> Iterator[str]:
    """Print how often each event occurred in each state, and the answers."""
    yield f"{'':13}" + "".join(f"{event.name:>12}" for event in Event)
    for state in State:
        cells = (
            seen[state.name, event.name] if event in TRANSITIONS[state] else "-" for event in Event
        )
        yield f"{state.name:13}" + "".join(f"{cell:>12}" for cell in cells)
    reached = {item for item in seen if item in legal()}
    yield f"{len(reached)} of {len(legal())} transitions"
    for what in ("decide", "send", "acknowledge"):
        answers = sorted(
            (int(name[2]), n) for name, n in seen.items() if name[:2] == ("answer", what)
        )
        yield f"{what}: " + ", ".join(f"{code} {count} times" for code, count in answers)
