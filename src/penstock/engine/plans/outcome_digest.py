"""A digest of everything that decides which records a gateway stores.

Two gateways with equal digests decide the same about each batch, as far as Penstock can see: what
policies read by themselves, from other files or a network, is not in it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING, Final

import penstock
from penstock.configuration.declared_keys import is_own
from penstock.configuration.file import FILE_KEYS, LISTENER_TLS_KEYS
from penstock.engine.plans.files_below import CODE, DATA, SCHEMAS, NotKnownError, files_below
from penstock.engine.plans.imported_files import INSTALLED, imported_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from importlib.metadata import Distribution

    from penstock.configuration import Configuration
    from penstock.configuration.processes.bounded import Imports
    from penstock.engine.plans.plan import Plan

_OF_UPSTREAM: Final = "upstream."
_OF_ONE_GATEWAY: Final = frozenset(
    key
    for key in (*FILE_KEYS, *LISTENER_TLS_KEYS)
    if key.startswith(
        (
            "ssl.",
            "listener",
            "advertised.",
            "broker.",
            "metrics.",
            "audit.",
            "max.connection",
            "connections.",
            "queued.",
            "sasl.",
            "policy.workers",
            "redrive.",
            "produce.request.interceptors.state",
        )
    )
)
"""Keys that decide nothing about records; any other key counts."""
_FOLDERS: Final = ("folder", "class.path")
"""How the keys end that name folders."""
_REGISTRY: Final = "schema.registry.url"
_READ_FROM: Final = ".key.from"
_BETWEEN: Final = re.compile("([,=:])")
"""Separators of paths in a value."""
_BYTES_MAX: Final = 256 * 2**20
_OWN: Final = "penstock"
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class OutcomeDigest:
    """The digest of a configuration and its classes.

    It is computed before and after workers read the same files, to be sure that they match.
    """

    def __init__(
        self, configuration: Configuration, plan: Plan, imports: Imports | None = None
    ) -> None:
        """Compute the digest; read files, and import classes in another process.

        Args:
            imports: Can end that process.

        Raises:
            NotKnownError: The outcome cannot be known in advance.
        """
        self._configuration = configuration
        self._files = dict(_files(configuration, plan, imports))
        self._words: set[str] = set()
        self._first_digest = self._digest_of_files()

    def value(self, patterns: Iterable[tuple[str, re.Pattern[str]]]) -> str:
        """Return the digest.

        Args:
            patterns: Class or name, and topic pattern, of each interceptor; its instances say it.

        Raises:
            NotKnownError: Files were changed meanwhile.
        """
        if self._digest_of_files() != self._first_digest:
            raise NotKnownError("files were changed while they were read")
        digest = hashlib.sha256()
        installed = {
            f"{distribution.name}=={distribution.version} {_modules_of(distribution)}"
            for distribution in distributions()
        }
        for part in (
            [self._first_digest, platform.python_implementation(), platform.python_version()],
            sorted(installed),
            _variables(self._words),
            _keys(self._configuration.properties),
            [f"{name} {pattern.flags} {pattern.pattern}" for name, pattern in patterns],
        ):
            _add(digest, repr(part).encode())
        return digest.hexdigest()

    def _digest_of_files(self) -> str:
        digest, remaining_bytes = hashlib.sha256(), _BYTES_MAX
        for name, path in sorted(self._files.items()):
            try:
                with path.open("rb") as file:
                    remaining_bytes -= os.fstat(file.fileno()).st_size
                    if remaining_bytes < 0:
                        raise NotKnownError(f"the files have more than {_BYTES_MAX} bytes")
                    content = file.read()
            except OSError as error:
                raise NotKnownError(f"{path} cannot be read: {error.strerror}") from None
            _add(digest, name.encode(errors="surrogateescape"))
            _add(digest, content)
            if _is_of_users(name, path):
                self._words.update(_WORD.findall(content.decode(errors="replace")))
        return digest.hexdigest()


def _is_of_users(name: str, path: Path) -> bool:
    """Whether a file is code that a user has written."""
    return (
        path.suffix == ".py" and not name.startswith(f"{_OWN}/") and not INSTALLED & set(path.parts)
    )


def _variables(words: set[str]) -> list[tuple[str, str]]:
    """Return the variables of the environment that code names, or how whose names begin."""
    return sorted(
        (name, value)
        for name, value in os.environ.items()
        if name in words
        or any(
            name[: place + 1] in words
            for place, character in enumerate(name)
            if place and character == "_"
        )
    )


def _modules_of(distribution: Distribution) -> str:
    """Return the digests of installed modules; a version may be installed again."""
    listed = (distribution.read_text("RECORD") or "").splitlines()
    modules = sorted(line for line in listed if ".py," in line)
    return hashlib.sha256("\n".join(modules).encode(errors="replace")).hexdigest()


def _add(digest: hashlib._Hash, part: bytes) -> None:
    digest.update(len(part).to_bytes(8, "big"))
    digest.update(part)


def _files(
    configuration: Configuration, plan: Plan, imports: Imports | None
) -> Iterator[tuple[str, Path]]:
    """Return the files that decide, by names that do not depend on where they are.

    Raises:
        NotKnownError: It is not known which.
    """
    if any(key.endswith(_REGISTRY) for key in configuration.properties):
        raise NotKnownError("a schema registry decides, too")
    for key in configuration.properties:
        if key.endswith(_READ_FROM):
            raise NotKnownError(f"{key} names what is not in the file")
    if configuration.records_policy_class_names_allowed:
        raise NotKnownError("topics may name classes that the file does not")
    classes = {
        f"{key} {place}": of_named.class_name
        if (of_named := configuration.policies.named(name))
        else name
        for key, names in plan.names.items()
        for place, name in enumerate(names)
    }
    of_users = {key: name for key, name in classes.items() if not is_own(name)}
    yield from files_below(Path(penstock.__file__).parent, _OWN, CODE)
    yield from files_below(configuration.folder, "", CODE | DATA if of_users else SCHEMAS)
    for key, value in configuration.properties.items():
        if not _is_of_one_gateway(key):
            yield from _named(key, value, configuration.folder)
    if of_users:
        yield from imported_files(
            of_users, configuration.path, configuration.class_path, imports
        ).items()


def _is_of_one_gateway(key: str) -> bool:
    return key in _OF_ONE_GATEWAY or key.startswith(_OF_UPSTREAM)


def _named(key: str, value: str, folder: Path) -> Iterator[tuple[str, Path]]:
    """Return the files that a key names, or the files in its folders."""
    for place, text in enumerate((value, *_BETWEEN.split(value)[::2])):
        path = _path(key, text, folder)
        if path is not None and path.is_file():
            yield f"{key} {place}", path
        elif path is not None:
            yield from files_below(path, f"{key} {place}", None)


def _path(key: str, text: str, folder: Path) -> Path | None:
    """Return the file that a text names, or the folder, if the key names folders."""
    name = text.partition("#")[0].strip()
    try:
        path = folder / name
        return path if name and (path.is_file() or _is_folder(key, path)) else None
    except (OSError, ValueError):
        return None


def _is_folder(key: str, path: Path) -> bool:
    return key.endswith(_FOLDERS) and path.is_dir()


def _keys(properties: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """Return the keys that decide."""
    return sorted(
        (key, _without_folders(key, value))
        for key, value in properties.items()
        if not _is_of_one_gateway(key)
    )


def _without_folders(key: str, value: str) -> str:
    """Return a value without the folders of paths: the digest has the content."""
    whole = _without_folder(key, value)
    if whole != value:
        return whole
    return "".join(_without_folder(key, text) for text in _BETWEEN.split(value))


def _without_folder(key: str, text: str) -> str:
    name, mark, rest = text.partition("#")
    path = _path(key, text, Path("/"))
    if path is None or not Path(name.strip()).is_absolute():
        return text
    return f"{path.name if path.is_file() else ''}{mark}{rest}"
