r"""The offline checker: would a real Triton load this repository, and if not, which line is wrong?

>>> from pathlib import Path
>>> import tempfile
>>> with tempfile.TemporaryDirectory() as folder:
...     model = Path(folder, "resnet")
...     (model / "1").mkdir(parents=True)
...     _ = (model / "config.pbtxt").write_text('backend: "onnxruntime"\nmax_batch_size: -1\n')
...     report = check_repository(Path(folder))
>>> [(finding.rule, finding.file, finding.line, finding.column) for finding in report if finding.rule == "R57"]
[('R57', 'resnet/config.pbtxt', 2, 17)]

The reader of config texts is in `textproto`, the server's own filling-in in `autofill` and `complete`, the order of the
checks in `judge`, the rules in `rules` and their one table in `table`.
"""

from aitune.triton.check.finding import Edit, Finding
from aitune.triton.check.report import CheckReport, ModelReport
from aitune.triton.check.repository import check_repository

__all__ = ["CheckReport", "Edit", "Finding", "ModelReport", "check_repository"]
