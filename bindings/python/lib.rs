//! The methods of `rollplan-service` as a Python module, which `Planner.local()` of the client library uses.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rollplan_core::interrupt::Interrupt;
use rollplan_service::{Code, Encoding, call};

/// Ends a call from another thread.
#[pyclass(frozen, module = "rollplan_local")]
#[derive(Default)]
struct Cancellation(AtomicBool);

#[pymethods]
impl Cancellation {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends the call. Its answer is then an error.
    fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Interrupts when the call is cancelled, and at its deadline.
struct Limits<'c> {
    cancellation: &'c Cancellation,
    /// `None` if it is too far away for the clock.
    deadline: Option<Instant>,
}

impl Interrupt for Limits<'_> {
    fn is_interrupted(&self) -> bool {
        let is_late = |deadline| Instant::now() >= deadline;
        self.cancellation.0.load(Ordering::Relaxed) || self.deadline.is_some_and(is_late)
    }
}

/// Answers a request that is encoded as protobuf, without holding the lock of the interpreter. Returns a code of gRPC, and the response, or
/// with a code other than 0 the `google.rpc.Status`.
#[pyfunction(name = "call")]
fn call_from_python<'py>(
    python: Python<'py>,
    method: &str,
    request: &[u8],
    timeout_seconds: f64,
    cancellation: &Cancellation,
) -> (i32, Bound<'py, PyBytes>) {
    let request = Bytes::copy_from_slice(request);
    let timeout = Duration::try_from_secs_f64(timeout_seconds.max(0.0)).ok();
    let limits = Limits {
        cancellation,
        deadline: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
    };
    let answer = python.detach(|| call(method, Encoding::Proto, request, &limits));
    let (code, bytes) = match answer {
        Ok(response) => (Code::Ok, response),
        Err(status) => (status.code, status.encode()),
    };
    (code.into(), PyBytes::new(python, &bytes))
}

/// The planner in the process of Python.
#[pymodule(gil_used = false)]
fn rollplan_local(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Cancellation>()?;
    module.add_function(wrap_pyfunction!(call_from_python, module)?)
}
