"""Backends that aitune brings to a Triton server; each folder is one, in the form Triton loads it."""
