"""Proves the size arithmetic of the planner for all numbers, and compares it with the Rust code."""
