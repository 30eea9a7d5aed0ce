//! Tests of canaries.
