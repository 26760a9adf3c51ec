"""The HTML pages in a real browser: they fit a phone, follow the colour scheme and load nothing."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from aitune.cli import tuning_page as tuning_page_module
from aitune.records import ONNXArtifact
from aitune.records.evidence import Accuracy, Evidence, Measurement, Tried, Tuning
from aitune.triton import perf_report, validation_report
from aitune.triton.perf_records import PerfPoint, PerfReport
from aitune.triton.proved_by import ProvedBy
from aitune.triton.validation_records import CheckResult, ModelReport, ValidationReport

PROVED_BY = ProvedBy(implementation="aitune-python", server="2.51.0", onnxruntime="1.32.0")
LONG = "aitune_" * 25
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
# The page in a frame of a given width, and beside it what a script outside the frame measures.
FRAME = """<!doctype html><body style="margin:0"><iframe id="page" width="{width}" height="1200" style="border:0"
srcdoc="{page}"></iframe><pre id="result"></pre><script>
const frame = document.getElementById("page");
frame.onload = () => {{
  const root = frame.contentDocument.documentElement;
  const style = frame.contentWindow.getComputedStyle(frame.contentDocument.body);
  const small = [...frame.contentDocument.querySelectorAll("p, li, td, h1, h2")].filter(
    (item) => parseFloat(frame.contentWindow.getComputedStyle(item).fontSize) < 12).length;
  document.getElementById("result").textContent = JSON.stringify({{
    width: root.clientWidth, content: root.scrollWidth, background: style.backgroundColor, small,
    loaded: frame.contentWindow.performance.getEntriesByType("resource").length}});
}};
</script>"""


def validation_page() -> str:
    """A report with every status and the longest names that may come."""
    checks = (
        CheckResult(name="ready", status="pass", detail="version 1 is ready over grpc and http"),
        CheckResult(name="config", status="fail", detail="differs", notes=(f"{LONG}: published 1, served 2", "more")),
        CheckResult(name="numbers", status="warn", detail=f"output {LONG!r} has NaN <script>alert(1)</script>"),
        CheckResult(name="bounds", status="skip", detail="bad requests are only sent to a server of our own"),
    )
    models = [
        ModelReport(name=LONG, version="3", checks=checks, claimed="ab" * 32, proved="", requests=12, seconds=0.5),
        ModelReport(name="digits", version="1", checks=checks[:1], claimed="ab" * 32, proved="ab" * 32),
    ]
    return validation_report.to_html(ValidationReport(models=models, proved_by=PROVED_BY))


def perf_page() -> str:
    """A report with sixteen levels and two shapes."""
    points = tuple(
        PerfPoint(
            kind="concurrency",
            level=level,
            batch_size=1,
            label=label,
            shape=(("input_ids", (128,)), (LONG, (128,))),
            throughput_per_s=1000.0 * level**0.5,
            p50_us=900.0 * level,
            p90_us=1200.0 * level,
            p95_us=1500.0 * level,
            p99_us=2000.0 * level,
            inferences=1000,
            executions=1000 // level,
        )
        for label in ("typical", "largest")
        for level in range(1, 17)
    )
    report = PerfReport(
        model=LONG, version="1", command=("perf_analyzer", "-m", LONG), points=points, proved_by=PROVED_BY
    )
    return perf_report.to_html(report)


def tuning_page() -> str:
    """A report with eight candidates, three shapes, a long name and one that failed."""
    names = ["default", "one-thread", LONG, "int8-dynamic", "parallel", "fused", "no-arena", "fp16"]
    measurements = tuple(
        Measurement(
            candidate=name,
            batch_size=batch,
            shape=shape,
            throughput_per_s=batch * 1e6 / (900.0 + 300.0 * batch + 50 * index),
            p50_us=900.0 + 300.0 * batch + 50 * index,
            low_us=800.0 + 300.0 * batch,
            high_us=1400.0 + 300.0 * batch,
            p95_us=2000.0 * batch if index else None,
            runs=60,
        )
        for shape in ("typical", "smallest", "largest")
        for index, name in enumerate(names)
        for batch in ((1, 4, 16, 48, 64) if shape == "typical" else (1,))
    )
    tuning = Tuning(
        objective="throughput",
        p95_ms=50.0,
        winner="one-thread",
        reason=f"'one-thread' answers a batch of 64 in 1.2e+04 us, as fast as {LONG!r}",
        candidates=tuple(Tried(name=name, settings=(("intra_op_thread_count", "1"),)) for name in names),
        measurements=measurements,
        accuracy=(Accuracy(candidate=LONG, output=LONG, max_abs=1e-6, max_rel=0.1, cosine=1.0, passed=True),
                  Accuracy(candidate="int8-dynamic", output="y", passed=False)),
        rejected=(("int8-dynamic", "answers differently: <script>alert(1)</script>"),),
    )  # fmt: skip
    artifact = ONNXArtifact(
        path=Path("m.onnx"),
        fingerprint="ab" * 32,
        inputs=(),
        outputs=(),
        evidence=Evidence(tuning=tuning, provenance=(("cpu", "some processor"),), notes=(f"a note {LONG}",)),
    )
    return tuning_page_module.to_html(artifact, LONG)


PAGES = {"validation": validation_page, "perf": perf_page, "tuning": tuning_page}


@pytest.fixture
def measure(tmp_path: Path) -> Callable[..., dict]:
    """Something that shows a page in Chromium and says how it came out."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no Chromium on this machine")

    def run(page: str, width: int, *flags: str) -> dict:
        frame = tmp_path / "frame.html"
        frame.write_text(FRAME.format(width=width, page=html.escape(page)), encoding="utf-8")
        argv = [program, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *flags, "--dump-dom", frame.as_uri()]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=True)
        found = re.search(r'<pre id="result">(.*?)</pre>', done.stdout)
        assert found, done.stderr[-2000:]
        assert found[1], done.stderr[-2000:]
        return json.loads(html.unescape(found[1]))

    return run


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_fits_its_window(name: str, width: int, measure) -> None:
    """Nothing sticks out sideways at the width of a phone or a desktop, and no text is tiny."""
    found = measure(PAGES[name](), width)
    assert found["content"] <= found["width"] <= width
    assert found["small"] == 0


@pytest.mark.parametrize("name", PAGES)
def test_a_page_follows_the_colour_scheme(name: str, measure) -> None:
    """Dark where the reader asked for dark."""
    light = measure(PAGES[name](), 390)["background"]
    dark = measure(PAGES[name](), 390, "--blink-settings=preferredColorScheme=0")["background"]
    assert sum(map(int, re.findall(r"\d+", light)[:3])) > 600
    assert sum(map(int, re.findall(r"\d+", dark)[:3])) < 150


@pytest.mark.parametrize("name", PAGES)
def test_a_page_loads_nothing(name: str, measure) -> None:
    """No request leaves the page, and it names no address to load from."""
    page = PAGES[name]()
    assert measure(page, 390)["loaded"] == 0
    assert not re.search(r"(?:src|href)\s*=|url\(|@import|https?://", page)


def test_what_a_model_says_cannot_become_markup() -> None:
    """Names and messages are escaped: they come from servers and files."""
    assert "<script>alert" not in validation_page()
    assert "&lt;script&gt;alert" in validation_page()
