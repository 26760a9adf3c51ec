"""The parts of ``scripts/bench_tuning``."""
