//! The planner as a service behind the other layers, and the streams of health and reflection.

pub(crate) mod codec;
pub(crate) mod planner;
pub(crate) mod reflection;
pub(crate) mod service;
pub(crate) mod streams;
