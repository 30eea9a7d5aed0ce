//! Values that templates may not have, in that of the Deployment and in that of a ReplicaSet.

use rollplan::wire::Reason::{self, MalformedJson, UnsafeInteger};

use super::Field;

pub(super) const FIELDS: &[Field] = &[
    (GRACE, "9223372036854775808", TOO_LARGE),
    (GRACE, "-9223372036854775809", TOO_LARGE),
    (GRACE, "18446744073709551616", TOO_LARGE),
    (GRACE, "1e16", TOO_LARGE),
    (GRACE, "1e999", INFINITE),
];

const GRACE: &str = "spec.template.spec.terminationGracePeriodSeconds";
const TOO_LARGE: Reason = UnsafeInteger;
const INFINITE: Reason = MalformedJson;
