//! The types of the generated shape table.

/// How a JSON value decodes.
#[derive(Debug)]
pub enum Kind {
    /// A Go bool.
    Bool,
    /// Any Go integer.
    Integer,
    /// A Go string, named or not.
    String,
    /// `resource.Quantity`, compared by value.
    Quantity,
    /// `intstr.IntOrString`. Its zero value is 0, not `""`.
    IntOrString,
    /// `metav1.Time`, compared as an instant.
    Time,
    /// `metav1.FieldsV1`: JSON that Go does not decode.
    Raw,
    /// A Go struct: a set of known fields, all optional.
    Struct(&'static Struct),
    /// A Go slice.
    List(&'static Kind),
    /// A Go map with string keys.
    Map(&'static Kind),
}

/// The JSON fields of a Go struct, including those of embedded structs.
#[derive(Debug)]
pub struct Struct {
    /// Name of the Go type, for example "ConfigMapEnvSource".
    pub name: &'static str,
    /// Sorted by name.
    pub(super) fields: &'static [Field],
}

/// A field of a Go struct.
#[derive(Debug)]
pub struct Field {
    pub(super) name: &'static str,
    /// Whether the Go field is a pointer, so that zero differs from absent.
    pub(super) pointer: bool,
    /// How the value of the field decodes.
    pub kind: Kind,
    /// The field by which a strategic merge matches the items of a list. Empty if it replaces the list.
    pub(super) merge_key: &'static str,
    /// Whether a strategic merge removes the fields that the manifest does not have.
    pub(super) retains_keys: bool,
    /// The fields by which a server-side apply matches the items of a list, each with its default. Empty if it replaces
    /// the list.
    pub(super) list_keys: &'static [(&'static str, &'static str)],
    /// Whether a server-side apply replaces this struct or map.
    pub(super) is_atomic: bool,
}

// === impl Struct ===

impl Struct {
    /// The field with this name.
    #[inline]
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&'static Field> {
        // Few names have the same length, so this compares fewer bytes than a binary search.
        self.fields.iter().find(|field| field.name == name)
    }
}

// === impl Field ===

impl Field {
    /// A field for which zero is the same as absent.
    pub(super) const fn value(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            pointer: false,
            kind,
            merge_key: "",
            retains_keys: false,
            list_keys: &[],
            is_atomic: false,
        }
    }

    /// A field for which zero differs from absent.
    pub(super) const fn pointer(name: &'static str, kind: Kind) -> Self {
        Self {
            name,
            pointer: true,
            kind,
            merge_key: "",
            retains_keys: false,
            list_keys: &[],
            is_atomic: false,
        }
    }

    /// A list whose items a strategic merge matches by this field.
    pub(super) const fn merged_by(mut self, key: &'static str) -> Self {
        self.merge_key = key;
        self
    }

    /// A struct, or a list of structs, in which a strategic merge removes the fields that the manifest does not have.
    pub(super) const fn retaining_keys(mut self) -> Self {
        self.retains_keys = true;
        self
    }

    /// A list whose items a server-side apply matches by these fields, each with its default.
    pub(super) const fn keyed_by(mut self, keys: &'static [(&'static str, &'static str)]) -> Self {
        self.list_keys = keys;
        self
    }

    /// A struct or map that a server-side apply replaces.
    pub(super) const fn atomic(mut self) -> Self {
        self.is_atomic = true;
        self
    }
}
