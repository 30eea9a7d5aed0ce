//! The log of a test.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::Value;
use tracing::Dispatch;
use tracing::subscriber::{self, DefaultGuard, NoSubscriber};

/// A second subscriber. With only one subscriber, tracing decides whether a log line is enabled when a thread first reaches
/// it, and keeps this decision for all threads: a test without a subscriber would disable the line.
static SECOND: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::default()));

/// The lines that this thread logs.
#[derive(Clone, Default)]
pub(crate) struct Written(Arc<Mutex<Vec<u8>>>);

impl Written {
    /// Reads the log until the guard is dropped.
    pub(crate) fn start() -> (Self, DefaultGuard) {
        LazyLock::force(&SECOND);
        let written = Self::default();
        let writer = written.clone();
        let guard = subscriber::set_default(super::subscriber(move || writer.clone()));
        (written, guard)
    }

    /// The lines without their timestamps.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let written = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        assert!(!written.contains("hunter2"), "{written}");
        let line = |line| {
            let mut line: Value = serde_json::from_str(line).unwrap();
            let time = line.as_object_mut().unwrap().remove("timestamp");
            assert!(time.unwrap().is_string());
            line
        };
        written.lines().map(line).collect()
    }
}

impl io::Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
