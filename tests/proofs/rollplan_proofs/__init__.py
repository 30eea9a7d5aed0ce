"""The size arithmetic of the planner, proved for all numbers and held against the Rust code."""
