//! The number of threads that serve calls.

use std::ffi::OsString;

use super::Error;

/// The runtime reads this variable, too, and panics if it is invalid.
const VARIABLE: &str = "TOKIO_WORKER_THREADS";

/// A larger number is an error: more threads than processors only compete with each other.
const MAX: usize = 1024;

/// The number given by the environment, or one per processor that the process may use.
pub(super) fn count() -> Result<usize, Error> {
    parse(std::env::var_os(VARIABLE))
}

fn parse(value: Option<OsString>) -> Result<usize, Error> {
    let Some(value) = value.filter(|value| !value.is_empty()) else {
        return Ok(std::thread::available_parallelism().map_or(1, usize::from));
    };
    let count = value.to_str().and_then(|value| value.parse().ok());
    let count = count.filter(|count| (1..=MAX).contains(count));
    count.ok_or_else(|| Error::Config {
        setting: VARIABLE,
        problem: format!("must be a whole number from 1 to {MAX}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_count_is_validated() {
        let parse = |value: &str| parse(Some(value.into())).map_err(|error| error.to_string());
        assert_eq!(parse("1"), Ok(1));
        assert_eq!(parse("1024"), Ok(1024));
        assert!(parse("").is_ok_and(|count| count > 0));
        for wrong in ["0", "-1", "two", "1025", "18446744073709551616"] {
            let problem = "TOKIO_WORKER_THREADS must be a whole number from 1 to 1024";
            assert_eq!(parse(wrong), Err(problem.to_owned()), "{wrong}");
        }
    }
}
