"""A registry as policies use it: queried, refreshed, and kept beyond the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.policies.schema_policy.registry.cache import Registry
from penstock.policies.schema_policy.registry.cache_folder import CacheFolder
from penstock.policies.schema_policy.registry.client import RegistryClient, token_source
from penstock.policies.schema_policy.registry.kept_answers import KeptAnswers
from penstock.policies.schema_policy.registry.refresher import Refresher

if TYPE_CHECKING:
    from penstock.policies.schema_policy.registry.settings import RegistrySettings


def open_registry(settings: RegistrySettings) -> Registry:
    """Return the registry of some settings; no request is sent yet."""
    folder = None if settings.cache_folder is None else CacheFolder(settings.cache_folder)
    tokens = token_source(settings)
    return Registry(
        RegistryClient(settings, tokens=tokens),
        shared_answers=KeptAnswers(settings.urls, folder, caller=settings.caller),
        refresher=Refresher(RegistryClient(settings, tokens=tokens)),
    )
