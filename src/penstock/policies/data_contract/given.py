"""`DataContract` with the content of the contract's file, for where the file is not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.policies.data_contract.policy import CONTRACT, DataContract

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from penstock.policies.data_contract.document import Contract


class GivenContract(DataContract):
    """Refuses records whose value does not fulfil a contract that it was given.

    It can be pickled.
    """

    def __init__(self, name: str, data: bytes) -> None:
        super().__init__()
        self._name_of_file = name
        self._data = data

    @classmethod
    def of(cls, file: Path) -> GivenContract:
        """Return the policy of a contract's file.

        Raises:
            ValueError: It cannot be used, or a package is missing.
        """
        try:
            from penstock.policies.data_contract.document import read_file  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ValueError(
                f"there is no module {error.name}: install penstock-kafka[contracts]"
            ) from None
        from penstock.policies.data_contract.errors import ContractError  # noqa: PLC0415

        try:
            policy = cls(file.name, read_file(file, file.name))
        except ContractError as error:
            raise ValueError(str(error)) from None
        policy.configure({})
        return policy

    def configure(self, configs: Mapping[str, str]) -> None:
        """Compile all objects of the contract.

        Raises:
            ValueError: It cannot be used, or a package is missing.
        """
        super().configure({**configs, CONTRACT: self._name_of_file})

    def _read(self, name: str) -> Contract:
        from penstock.policies.data_contract.document import contract_of  # noqa: PLC0415

        return contract_of(name, self._data)

    def __reduce__(self) -> tuple[type[GivenContract], tuple[str, bytes]]:
        return type(self), (self._name_of_file, self._data)
