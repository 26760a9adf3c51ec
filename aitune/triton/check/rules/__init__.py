"""The rules, one module per area; `aitune.triton.check.table` lists them in the order in which the server checks."""
