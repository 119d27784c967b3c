"""Tokens for aiokafka."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from types import SimpleNamespace

import pytest

from penstock.configuration.clients.oauth import TOKEN_URL, read_oauth
from penstock.kafka.client.connections.oauth import TokenProvider
from penstock.kafka.client.connections.tokens import OAuthTokens
from penstock.kafka.client.errors import LoginError
from tests.kafka.client.settings import FILE


def provider(properties):
    return TokenProvider(OAuthTokens(read_oauth(properties, ""), FILE))


async def test_a_token_and_its_extensions():
    jaas = 'x required unsecuredLoginStringClaim_sub="alice" extension_who="me";'
    found = provider({"sasl.jaas.config": jaas})
    assert (await found.token()).count(".") == 2
    assert found.extensions() == {"who": "me"}


async def test_tokens_that_do_not_come_take_no_thread_of_the_event_loop():
    comes = Event()
    hanging = TokenProvider(
        SimpleNamespace(token=lambda: comes.wait() and SimpleNamespace(text="a token"))
    )
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    tokens = [asyncio.ensure_future(hanging.token()) for _ in range(3)]
    try:
        await asyncio.sleep(0)
        assert await asyncio.wait_for(asyncio.to_thread(lambda: "a thread"), 30) == "a thread"
    finally:
        comes.set()
    assert await asyncio.gather(*tokens) == ["a token"] * 3


async def test_no_token_is_a_failed_login(tmp_path):
    with pytest.raises(LoginError, match="cannot be read") as caught:
        await provider({TOKEN_URL: (tmp_path / "none").as_uri()}).token()
    assert not caught.value.retriable


@pytest.mark.system
async def test_an_endpoint_that_is_away_may_come_back():
    jaas = 'x required clientId="me" clientSecret="s3";'
    with pytest.raises(LoginError, match="cannot be reached") as caught:
        await provider({TOKEN_URL: "http://127.0.0.1:1/", "sasl.jaas.config": jaas}).token()
    assert caught.value.retriable


async def test_a_token_that_does_not_come_does_not_hold_up_the_next():
    comes = Event()
    calls = iter([lambda: comes.wait(30), lambda: None])
    found = TokenProvider(
        SimpleNamespace(token=lambda: SimpleNamespace(text="a token", waited=next(calls)()))
    )
    blocked = asyncio.ensure_future(found.token())
    try:
        await asyncio.sleep(0)
        assert await asyncio.wait_for(found.token(), 1) == "a token"
        assert not blocked.done()
    finally:
        comes.set()
    await blocked
