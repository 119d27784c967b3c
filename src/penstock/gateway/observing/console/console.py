"""The responses to the console's requests, and the events for its subscribers."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from uuid import uuid4

import structlog

from penstock.gateway.observing.console import assets, peer_state, plan_comparison, state
from penstock.gateway.observing.console.all_gateways import AllGateways
from penstock.gateway.observing.console.history import SAMPLE_S, FigureHistory
from penstock.gateway.observing.console.peer_state import GatewayState
from penstock.gateway.observing.console.recent_refusals import RecentRefusals, shown
from penstock.gateway.observing.console.subscribers import CONTENT_TYPE, Subscribers, as_text
from penstock.gateway.observing.console.topic_plans import Planned, TopicPlans
from penstock.gateway.observing.metrics.http_server import EventStream, HttpResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping

    from penstock.gateway.observing.console.peers import Peers
    from penstock.gateway.observing.console.recent_refusals import RefusalRow
    from penstock.gateway.observing.metrics.access import Access
    from penstock.gateway.observing.metrics.broker_checks import BrokerChecks
    from penstock.gateway.observing.metrics.counts import GatewayCounts
    from penstock.gateway.observing.metrics.exposition import Gauge
    from penstock.gateway.observing.metrics.http_server import Handler, Request
    from penstock.gateway.refusal_log import Refused

log = structlog.get_logger()

JSON: Final = "application/json"
EVERY_S: Final = 0.25
"""How often subscribers get refusals."""
CHANGED_MAX: Final = 100
"""The most rows in an event; those that were seen last."""
WRONG_LOGIN_S: Final = 1.0
"""So long a wrong token takes, over the few connections that there are."""
WRONG_LOGINS_MAX: Final = 8
"""While so many wait, no other token is checked: connections are left for probes."""
_ROWS_AT_ONCE: Final = 50
_FIGURES_EVERY: Final = 2
"""Samples between two events of figures."""
_TICKS_A_SAMPLE: Final = round(SAMPLE_S / EVERY_S)
_AFTER_ERROR_S: Final = 60.0
_OF_FIGURES: Final = (
    "at", "ready", "connections", "held_bytes", "workers", "audit_trail", "settings_generation",
    "producers", "restarts",
)  # fmt: skip


class ConsoleGateway(state.ShownGateway, Planned, Protocol):
    """A gateway, as far as the console shows it."""


class Reload(NamedTuple):
    """How the last reload of the file ended.

    Attributes:
        at: When, in seconds since the epoch.
        worked: Whether other policies are in force since then.
        why_not: The error, if not.
    """

    at: float
    worked: bool
    why_not: str = ""


class Console:
    """The page, the state behind it, and the events that change it."""

    def __init__(
        self,
        gateway: ConsoleGateway,
        counts: GatewayCounts,
        checks: BrokerChecks,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
        wrong_login_s: float = WRONG_LOGIN_S,
        peers: Callable[[str], Peers] | None = None,
    ) -> None:
        """Prepare; `run` keeps it up to date.

        Args:
            counts: What it counts.
            checks: How the last attempt to connect to each broker ended.
            now: Returns the time in seconds since the epoch.
            clock: Returns the monotonic time in seconds.
            wrong_login_s: How long a login with a wrong token takes.
            peers: Makes the other gateways that are shown, of the id of this gateway's run; None
                if there are none.
        """
        self._gateway = gateway
        self._counts = counts
        self._checks = checks
        self._now = now
        self._clock = clock
        self._wrong_login_s = wrong_login_s
        self._wrong_logins = 0
        self._refusals = RecentRefusals(now)
        self.refused: Callable[[Refused], None] = self._refusals.put
        self._plans = TopicPlans(gateway, clock)
        self._history = FigureHistory(counts.totals(), clock(), now())
        self._subscribers = Subscribers()
        self._reload: Reload | None = None
        self._shown_reload: dict[str, Any] | None = None
        self._id = str(uuid4())
        self._all: AllGateways | None = None
        if peers is not None:
            self._all = AllGateways(peers(self._id), clock, now())

    def reloaded(self, *, worked: bool, why_not: str = "") -> None:
        """Take note of a reload of the file."""
        self._reload = Reload(self._now(), worked, shown(why_not))
        self._plans.forget()
        if self._all is None:
            self._subscribers.publish("reload", self._reload_as_json())

    async def run(self) -> None:
        """Sample the counters, and send changes to subscribers, again and again."""
        if self._all is None:
            await self._run()
        else:
            await asyncio.gather(self._run(), self._all.peers.run())

    async def _run(self) -> None:
        for tick in count(1):
            await asyncio.sleep(EVERY_S)
            try:
                await self._tick(tick)
            except Exception:
                log.exception("an error of the gateway", action="console")
                await asyncio.sleep(_AFTER_ERROR_S)

    async def _tick(self, tick: int) -> None:
        is_sampled = tick % _TICKS_A_SAMPLE == 0
        if self._subscribers or is_sampled:
            self._publish_refusals()
        if is_sampled:
            self._sample()
        if tick % (_FIGURES_EVERY * _TICKS_A_SAMPLE) == 0:
            await self._look_at_gateways()

    async def _look_at_gateways(self) -> None:
        if self._all is None and not self._subscribers:
            return
        own = await self._own()
        if self._all is not None:
            self._all.compare_plans(own)
        if self._subscribers:
            self._subscribers.publish("figures", await self._figures(own))
            if self._all is not None:
                self._publish_reload(self._all.reload(own))

    def _publish_reload(self, reload: dict[str, Any] | None) -> None:
        if reload is not None and reload != self._shown_reload:
            self._subscribers.publish("reload", reload)
        self._shown_reload = reload

    def _publish_refusals(self) -> None:
        changed_rows = self._refusals.look()
        others = self._refusals.others
        if self._all is None:
            rows = [row.as_json() for row in changed_rows[-CHANGED_MAX:]]
        else:
            self._all.refused(changed_rows, self._refusals.rows, others)
            rows = self._all.refusals.take_changed(CHANGED_MAX)
            others = self._all.refusals.others
        if rows and self._subscribers:
            self._subscribers.publish("refusals", {"rows": rows, "others": others})

    def _sample(self) -> None:
        totals, clock, now = self._counts.totals(), self._clock(), self._now()
        point = self._history.sample(totals, clock, now)
        if self._all is not None:
            point = self._all.sample(self._id, totals, clock, now)
        if point is not None:
            self._subscribers.publish("point", point.as_json())

    def gauges(self) -> list[Gauge]:
        """Return the metrics about all gateways."""
        return [plan_comparison.gauge(None if self._all is None else self._all.comparison)]

    # Responses

    def paths(self, access: Access) -> Mapping[str, Handler]:
        """Return the handlers of GET, by path."""
        return {
            "/": partial(self._page, access),
            **({"/login": _login_page} if access.needs_token else {}),
            "/api/state": self._answer_state,
            peer_state.PATH: self._answer_peer,
            "/api/topics": self._answer_topics,
            "/api/events": partial(self._answer_events, access),
            **{f"/{name}": partial(_asset, name) for name in assets.PUBLIC},
        }

    def posts(self, access: Access) -> Mapping[str, Handler]:
        """Return the handlers of POST, by path: only the login."""
        if not access.needs_token:
            return {}
        return {"/login": partial(self._login, access), "/logout": partial(_logout, access)}

    @staticmethod
    async def _page(access: Access, request: Request) -> HttpResponse:
        if access.is_authorized(request):
            return assets.page(can_log_out=access.needs_token)
        return assets.login()

    async def _login(self, access: Access, request: Request) -> HttpResponse:
        if self._wrong_logins >= WRONG_LOGINS_MAX:
            text = b"too many wrong tokens at once; try again later\n"
            return HttpResponse(429, text, headers=(*assets.HEADERS, ("Retry-After", "1")))
        cookie = access.open_session(request)
        if cookie is None:
            self._wrong_logins += 1
            try:
                await asyncio.sleep(self._wrong_login_s)
            finally:
                self._wrong_logins -= 1
            return assets.login(was_wrong=True)
        return _to_the_page(cookie)

    async def _answer_state(self, _: Request) -> HttpResponse:
        return _json(await self._state())

    async def _answer_peer(self, _: Request) -> HttpResponse:
        own = await self._own()
        own.rows = [row async for row in _as_json(self._refusals.rows())]
        body = await own.encode()
        return HttpResponse(200, body, peer_state.CONTENT_TYPE, assets.HEADERS)

    async def _answer_topics(self, _: Request) -> HttpResponse:
        return _json(await self._plans.read())

    async def _answer_events(self, access: Access, request: Request) -> HttpResponse | EventStream:
        if self._subscribers.is_full:
            text = b"as many are watching as may; try again later\n"
            return HttpResponse(503, text, headers=(("Retry-After", "10"),))
        is_allowed = partial(access.is_authorized, request)
        return EventStream(self._subscribers.subscribe(self._state, is_allowed), CONTENT_TYPE)

    # The state

    async def _state(self) -> str:
        """Return everything but the plans of topics, as a line of JSON."""
        own = await self._own()
        figures = await self._figures(own)
        reload, history, others = own.head["reload"], self._history, self._refusals.others
        if self._all is None:
            rows = [row async for row in _as_json(self._refusals.rows())]
        else:
            reload, history = self._all.reload(own), self._all.history
            rows, others = self._all.refusals.rows(), self._all.refusals.others
        head = as_text(
            {
                "api": state.API_VERSION,
                "gateway": own.head["gateway"],
                **figures,
                "reload": reload,
                "plans": state.plans(self._gateway.plan_digests),
            }
        )
        lines = [line async for line in _as_lines(rows)]
        return (
            f'{head[:-1]},"refusals":{{"rows":[{",".join(lines)}],"others":{others}}},'
            f'"history":{history.as_text()}}}'
        )

    async def _own(self) -> GatewayState:
        """Return the state of this gateway."""
        loop_time = asyncio.get_running_loop().time()
        now = await state.at_the_moment(self._gateway, self._checks.brokers, loop_time)
        brokers = now.pop("brokers")
        head = {
            "api": state.API_VERSION,
            "run": self._id,
            "at": round(self._now(), 3),
            "gateway": state.about(self._gateway),
            **now,
            "restarts": self._counts.restarts(),
            "totals": self._counts.totals()._asdict(),
            "reload": self._reload_as_json(),
            "others": self._refusals.others,
        }
        topics = {shown(topic): counts for topic, counts in self._counts.records_by_topic().items()}
        digests = {shown(name): plan for name, plan in self._gateway.plan_digests.items()}
        return GatewayState(head, brokers, topics, plans=digests)

    async def _figures(self, own: GatewayState) -> dict[str, Any]:
        """Return the data of the regular events."""
        if self._all is not None:
            return {"at": own.head["at"], **await self._all.figures(own)}
        return {
            **{name: own.head[name] for name in _OF_FIGURES},
            "brokers": own.brokers,
            "rates": self._history.now.as_json(),
            "totals": own.head["totals"]["records"],
            "topics": state.topics(own.topics),
            "gateways": [],
        }

    def _reload_as_json(self) -> dict[str, Any] | None:
        return None if self._reload is None else self._reload._asdict()


async def _as_json(rows: Iterable[RefusalRow]) -> AsyncIterator[dict[str, Any]]:
    """Yield rows of refusals, with everything else in between."""
    for number, row in enumerate(rows, 1):
        yield row.as_json()
        if number % _ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)


async def _as_lines(rows: Iterable[Mapping[str, Any]]) -> AsyncIterator[str]:
    """Yield rows as lines of JSON, with everything else in between."""
    for number, row in enumerate(rows, 1):
        yield as_text(row)
        if number % _ROWS_AT_ONCE == 0:
            await asyncio.sleep(0)


async def _asset(name: str, _: Request) -> HttpResponse:
    return assets.asset(name)


async def _login_page(_: Request) -> HttpResponse:
    return assets.login()


async def _logout(access: Access, request: Request) -> HttpResponse:
    return _to_the_page(access.close_session(request))


def _to_the_page(cookie: str) -> HttpResponse:
    headers = (*assets.HEADERS, ("Location", "./"), ("Set-Cookie", cookie))
    return HttpResponse(303, b"", headers=headers)


def _json(text: str) -> HttpResponse:
    return HttpResponse(200, text.encode("ascii"), JSON, assets.HEADERS)
