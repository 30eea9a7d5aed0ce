//! Values that templates may not have, in that of the Deployment and in that of a ReplicaSet.

use rollplan::wire::Reason::OutOfRange;

use super::Field;

pub(super) const FIELDS: &[Field] = &[
    (GRACE, "9223372036854775808", OutOfRange),
    (GRACE, "-9223372036854775809", OutOfRange),
    (GRACE, "18446744073709551616", OutOfRange),
    (GRACE, "1e16", OutOfRange),
    (GRACE, "1e999", OutOfRange),
];

const GRACE: &str = "spec.template.spec.terminationGracePeriodSeconds";
