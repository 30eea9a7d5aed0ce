//! The rules against upstream's own answers: see the sections below.
