//! ConfigMaps, Secrets and SecretProviderClasses, represented by checksums.

use std::collections::{BTreeMap, BTreeSet};

use rollplan_core::reference::ConfigurationKind;
use rollplan_core::snapshot::StringMap;
use rollplan_core::time::Time;

/// A configuration.
#[derive(Clone, Debug)]
pub struct Configuration {
    /// Its kind.
    pub kind: ConfigurationKind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its annotations.
    pub annotations: StringMap,
    /// Its content.
    pub content: Content,
    /// When it was created, if known.
    pub created_at: Option<Time>,
    /// The time of the last change to its data, if known.
    pub changed_at: Option<Time>,
    /// Whether the data may have been last changed earlier, for example because this is the time of a change of a label.
    pub is_change_uncertain: bool,
    /// A resource version at which the data already had its current value, if known.
    pub version: Option<u64>,
    /// The number of versions that the caller has observed. With more than one, a change is certain even if no checksum is
    /// recorded.
    pub observations: u32,
}

/// The content of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// It does not exist.
    Absent,
    /// It exists.
    Present {
        /// Checksum of each key: at least 16 lower-case hexadecimal digits. `None` if only `whole` is known.
        keys: Option<BTreeMap<String, String>>,
        /// The keys of `binaryData`, which `envFrom` does not read.
        binary: BTreeSet<String>,
        /// Checksum of everything, in the format of the profile. Empty if only `keys` are known.
        whole: String,
    },
}
