"""Importing the sample metadata pays for torch and nothing else."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys, torch
before = set(sys.modules)
import aitune.torch.module.sample_metadata
new = {name.partition(".")[0] for name in set(sys.modules) - before}
print(sorted(new - set(sys.stdlib_module_names)))
"""


def test_sample_metadata_pulls_in_nothing_but_torch() -> None:
    """After torch, the import loads modules of aitune and of the standard library only."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['aitune']"
