"""Do two configs serve the same thing, but for the number of the version?"""

from __future__ import annotations

import dataclasses
from typing import Any

from aitune.errors import RecordError
from aitune.triton.contract import PARAMETER_PREFIX, contracts_in, dump_contract
from aitune.triton.schema import model_config

__all__ = ["same_config"]


def same_config(left: Any, right: Any) -> bool:
    """Whether two ``ModelConfig`` messages differ in nothing but the version they name.

    Of the golden probe only its presence counts: its numbers are measured, and their last digits are the machine's.
    """
    return bool(_without_version(left) == _without_version(right))


def _without_version(config: Any) -> Any:
    bare = model_config().ModelConfig()
    bare.CopyFrom(config)
    bare.ClearField("version_policy")
    bare.version_policy.specific.versions.extend([0] * len(config.version_policy.specific.versions))
    try:
        contracts = contracts_in(config)
    except RecordError:  # an edited or newer contract: compared as it stands
        return bare
    for version, contract in contracts.items():
        del bare.parameters[f"{PARAMETER_PREFIX}{version}"]
        text = dump_contract(dataclasses.replace(contract, probe=None))
        bare.parameters[PARAMETER_PREFIX].string_value = f"{text} probe {contract.probe is not None}"
    return bare
