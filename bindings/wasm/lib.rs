//! The methods of `rollplan-service` as exports of a WebAssembly module that imports nothing: no clock, no random numbers, no I/O.
//!
//! A call has three parts: [`rollplan_input`] makes room for the name of the method and the request, into which the host writes
//! them; [`rollplan_call`] answers, and returns a code of gRPC; [`rollplan_output`] is where the answer is: the response, or with
//! a code other than 0 the `google.rpc.Status`.
//!
//! Panics trap. Afterwards, the host must discard the instance, and report INTERNAL.

#[cfg(feature = "page")]
mod page;

use std::cell::RefCell;

use bytes::Bytes;
#[cfg(not(feature = "page"))]
use rollplan_service::call;
use rollplan_service::{Budget, Code, Encoding};

#[cfg(feature = "page")]
use self::page::call;

thread_local! {
    /// The name of the method and the request of the next call.
    static INPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// The answer of the last call.
    static OUTPUT: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Makes room for the name of a method, followed by its request. Returns the address of the first of `length` bytes, which
/// is valid until the next call.
// SAFETY: no other function of the module has this name. This holds for all exports.
#[unsafe(no_mangle)]
pub extern "C" fn rollplan_input(length: usize) -> *mut u8 {
    INPUT.with_borrow_mut(|input| {
        *input = vec![0; length];
        input.as_mut_ptr()
    })
}

/// Answers the request in the input, whose first `method_length` bytes are the name of the method. With `is_json`, request and
/// response are JSON, otherwise protobuf. `checks` limits the work: see [`Budget`].
///
/// Returns the code of gRPC: 0, or that of the error.
#[unsafe(no_mangle)]
pub extern "C" fn rollplan_call(method_length: usize, is_json: bool, checks: u64) -> i32 {
    // An earlier answer would be held while the next one is made.
    OUTPUT.take();
    let mut request = Bytes::from(INPUT.take());
    let method = request.split_to(method_length);
    let encoding = if is_json {
        Encoding::Json
    } else {
        Encoding::Proto
    };
    let method = String::from_utf8_lossy(&method);
    let (code, output) = match call(&method, encoding, request, &Budget::new(checks)) {
        Ok(response) => (Code::Ok, response),
        Err(status) => (status.code, status.encode()),
    };
    OUTPUT.set(output);
    code.into()
}

/// The address of the answer of the last call. It is valid until the next call.
#[unsafe(no_mangle)]
pub extern "C" fn rollplan_output() -> *const u8 {
    OUTPUT.with_borrow(|output| output.as_ptr())
}

/// The number of bytes of the answer of the last call.
#[unsafe(no_mangle)]
pub extern "C" fn rollplan_output_length() -> usize {
    OUTPUT.with_borrow(Vec::len)
}
