//! The words in which the generated table of a template's shape is written.

/// How a JSON value decodes.
#[derive(Debug)]
pub(super) enum Kind {
    /// A Go bool.
    Bool,
    /// Any Go integer.
    Integer,
    /// A Go string, named or not.
    String,
    /// `resource.Quantity`, compared by value.
    Quantity,
    /// `intstr.IntOrString`, for which 0 is the zero and `""` is not.
    IntOrString,
    /// `metav1.Time`, compared as an instant.
    Time,
    /// `metav1.FieldsV1`, JSON that Go keeps as it is.
    Raw,
    /// A Go struct: known fields, each optional.
    Struct(&'static Struct),
    /// A Go slice.
    List(&'static Kind),
    /// A Go map with string keys.
    Map(&'static Kind),
}

/// A Go struct as JSON sees it, embedded structs flattened.
#[derive(Debug)]
pub(super) struct Struct {
    /// Sorted by name.
    pub(super) fields: &'static [Field],
}

/// A field of a Go struct.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    /// The Go field is a pointer: its zero differs from its absence.
    pub(super) pointer: bool,
    pub(super) kind: Kind,
}

// === impl Struct ===

impl Struct {
    pub(super) fn field(&self, name: &str) -> Option<&'static Field> {
        let fields = self.fields;
        fields
            .binary_search_by(|field| field.name.cmp(name))
            .ok()
            .map(|at| &fields[at])
    }
}

// === impl Field ===

impl Field {
    /// A field whose zero is the same as its absence.
    pub(super) const fn value(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            pointer: false,
            kind,
        }
    }

    /// A field whose zero differs from its absence.
    pub(super) const fn pointer(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            pointer: true,
            kind,
        }
    }
}
