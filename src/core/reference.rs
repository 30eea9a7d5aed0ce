//! The configurations that a pod template uses. They are found by a walk over the shape table, which contains every field
//! of Kubernetes that refers to a ConfigMap or Secret.

use std::collections::BTreeMap;
use std::fmt;

use crate::template::{Kind, MAX_DEPTH, Struct, TEMPLATE, Value};

/// The CSI driver whose volumes use SecretProviderClasses.
const CSI_DRIVER: &str = "secrets-store.csi.k8s.io";

/// A kind of configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigurationKind {
    /// core/v1 ConfigMap.
    ConfigMap,
    /// core/v1 Secret.
    Secret,
    /// SecretProviderClass of the Secrets Store CSI driver, observed through SecretProviderClassPodStatus.
    SecretProviderClass,
}

/// One use of a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Kind of the configuration.
    pub kind: ConfigurationKind,
    /// Name of the configuration, in the namespace of the workload.
    pub name: String,
    /// The keys that are used. `None` for all keys.
    pub keys: Option<Vec<String>>,
    /// How it is used.
    pub usage: Usage,
    /// Whether pods can start without it.
    pub optional: bool,
    /// The keys without which pods cannot start, unless it is optional.
    pub required_keys: Vec<String>,
    /// Whether it is part of a projected volume.
    pub projected: bool,
    /// The container that uses it.
    pub container: Option<ContainerAt>,
}

/// How a configuration is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// `env[].valueFrom`.
    Env,
    /// `envFrom`.
    EnvFrom,
    /// A volume mounted with `subPath`, which is never updated in place.
    SubPath,
    /// A volume, which is updated in place.
    Volume,
    /// A volume that no container mounts, or of which a container mounts no file.
    Unmounted,
    /// `imagePullSecrets`.
    ImagePull,
    /// The credentials with which a volume is mounted, such as those of a CSI driver.
    VolumeAccess,
    /// By name, in an annotation.
    Named,
}

/// A container of a pod template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerAt {
    /// The list that contains it, for example "initContainers".
    pub list: String,
    /// Its index in the list.
    pub index: usize,
    /// Its name.
    pub name: String,
}

/// The uses of configurations in a pod template, in the order of the template.
#[must_use]
pub fn references(template: &Value) -> Vec<Reference> {
    let mut walk = Walk::default();
    walk.visit(&TEMPLATE, template, 0);
    walk.finish()
}

/// A volume source that refers to a configuration.
struct VolumeSource {
    volume: String,
    kind: ConfigurationKind,
    name: String,
    /// The keys with their file paths. `None` if every key is a file of the same name.
    items: Option<Vec<(String, String)>>,
    optional: bool,
    projected: bool,
}

struct Mount {
    volume: String,
    sub_path: SubPath,
    container: Option<ContainerAt>,
}

/// The part of a volume that is mounted.
enum SubPath {
    Everything,
    /// A file, or a directory of files.
    Path(String),
    /// A path that depends on environment variables.
    Expression,
}

#[derive(Default)]
struct Walk {
    found: Vec<Reference>,
    sources: Vec<VolumeSource>,
    mounts: Vec<Mount>,
    container: Option<ContainerAt>,
    volume: String,
}

// === impl ConfigurationKind ===

impl ConfigurationKind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::ConfigMap, Self::Secret, Self::SecretProviderClass];

    /// The name of the kind in Kubernetes.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::SecretProviderClass => "SecretProviderClass",
        }
    }

    /// The kind in lower case, as in `configmap/app` and in annotation keys.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::ConfigMap => "configmap",
            Self::Secret => "secret",
            Self::SecretProviderClass => "secretproviderclass",
        }
    }
}

impl fmt::Display for ConfigurationKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl Usage ===

impl Usage {
    /// Whether running pods never receive a change.
    #[must_use]
    pub fn needs_restart(self) -> bool {
        matches!(
            self,
            Self::Env | Self::EnvFrom | Self::SubPath | Self::Named
        )
    }

    /// The name of the usage.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Env => "env",
            Self::EnvFrom => "envFrom",
            Self::SubPath => "subPath",
            Self::Volume => "volume",
            Self::Unmounted => "unmounted",
            Self::ImagePull => "imagePullSecret",
            Self::VolumeAccess => "volumeAccess",
            Self::Named => "named",
        }
    }
}

// === impl Walk ===

impl Walk {
    fn visit(&mut self, kind: &Kind, value: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            return;
        }
        match (kind, value) {
            (Kind::Struct(of), Value::Map(entries)) => self.enter(of, value, entries, depth),
            (Kind::List(of), Value::List(items)) => {
                for item in items {
                    self.visit(of, item, depth + 1);
                }
            }
            (Kind::Map(of), Value::Map(entries)) => {
                for item in entries.values() {
                    self.visit(of, item, depth + 1);
                }
            }
            _ => {}
        }
    }

    fn enter(
        &mut self,
        of: &Struct,
        value: &Value,
        entries: &BTreeMap<String, Value>,
        depth: usize,
    ) {
        match of.name {
            "ConfigMapKeySelector" => self.key(ConfigurationKind::ConfigMap, value),
            "SecretKeySelector" => self.key(ConfigurationKind::Secret, value),
            "ConfigMapEnvSource" => self.env_from(ConfigurationKind::ConfigMap, value),
            "SecretEnvSource" => self.env_from(ConfigurationKind::Secret, value),
            "ConfigMapVolumeSource" => {
                self.source(ConfigurationKind::ConfigMap, "name", false, value);
            }
            "ConfigMapProjection" => {
                self.source(ConfigurationKind::ConfigMap, "name", true, value);
            }
            "SecretVolumeSource" => {
                self.source(ConfigurationKind::Secret, "secretName", false, value);
            }
            "SecretProjection" => self.source(ConfigurationKind::Secret, "name", true, value),
            "CSIVolumeSource" => self.csi(value),
            "AzureFileVolumeSource" => self.volume_access(text(value, "secretName")),
            "VolumeMount" => self.mount(value),
            "Volume" => self.volume = text(value, "name").to_owned(),
            _ => {}
        }
        for (key, inner) in entries {
            let Some(field) = of.field(key) else { continue };
            match (&field.kind, inner) {
                // The Secrets of volumes in upstream's `VisitPodSecretNames` (pkg/api/v1/pod/util.go).
                (Kind::Struct(reference), inner)
                    if reference.name == "LocalObjectReference"
                        && matches!(key.as_str(), "secretRef" | "nodePublishSecretRef") =>
                {
                    self.volume_access(text(inner, "name"));
                }
                (Kind::List(Kind::Struct(item)), Value::List(items)) => {
                    self.list(key, item, items, depth);
                }
                (kind, inner) => self.visit(kind, inner, depth + 1),
            }
        }
    }

    fn list(&mut self, key: &str, of: &'static Struct, items: &[Value], depth: usize) {
        let is_container = matches!(of.name, "Container" | "EphemeralContainer");
        for (index, item) in items.iter().enumerate() {
            if is_container {
                self.container = Some(ContainerAt {
                    list: key.to_owned(),
                    index,
                    name: text(item, "name").to_owned(),
                });
            }
            if key == "imagePullSecrets" && of.name == "LocalObjectReference" {
                self.add(
                    ConfigurationKind::Secret,
                    item,
                    None,
                    Usage::ImagePull,
                    true,
                );
            }
            self.visit(&Kind::Struct(of), item, depth + 2);
        }
        if is_container {
            self.container = None;
        }
    }

    fn key(&mut self, kind: ConfigurationKind, value: &Value) {
        let keys = vec![text(value, "key").to_owned()];
        self.add(kind, value, Some(keys), Usage::Env, is_optional(value));
    }

    fn env_from(&mut self, kind: ConfigurationKind, value: &Value) {
        self.add(kind, value, None, Usage::EnvFrom, is_optional(value));
    }

    fn add(
        &mut self,
        kind: ConfigurationKind,
        value: &Value,
        keys: Option<Vec<String>>,
        usage: Usage,
        optional: bool,
    ) {
        let name = text(value, "name");
        if !name.is_empty() {
            self.found.push(Reference {
                kind,
                name: name.to_owned(),
                required_keys: keys.clone().unwrap_or_default(),
                keys,
                usage,
                optional,
                projected: false,
                container: self.container.clone(),
            });
        }
    }

    fn source(&mut self, kind: ConfigurationKind, name: &str, projected: bool, value: &Value) {
        let items = value.get("items").and_then(Value::as_list);
        let items = items.filter(|items| !items.is_empty()).map(|items| {
            let item = |item: &Value| (text(item, "key").to_owned(), text(item, "path").to_owned());
            items.iter().map(item).collect()
        });
        self.sources.push(VolumeSource {
            volume: self.volume.clone(),
            kind,
            name: text(value, name).to_owned(),
            items,
            optional: is_optional(value),
            projected,
        });
    }

    fn csi(&mut self, value: &Value) {
        let class = value.at(&["volumeAttributes", "secretProviderClass"]);
        if text(value, "driver") == CSI_DRIVER
            && let Some(name) = class.and_then(Value::as_str)
        {
            self.sources.push(VolumeSource {
                volume: self.volume.clone(),
                kind: ConfigurationKind::SecretProviderClass,
                name: name.to_owned(),
                items: None,
                // Its status does not exist before its pods exist.
                optional: true,
                projected: false,
            });
        }
    }

    fn volume_access(&mut self, name: &str) {
        if !name.is_empty() {
            self.found.push(Reference {
                kind: ConfigurationKind::Secret,
                name: name.to_owned(),
                keys: None,
                usage: Usage::VolumeAccess,
                optional: true,
                required_keys: Vec::new(),
                projected: false,
                container: None,
            });
        }
    }

    fn mount(&mut self, value: &Value) {
        let path = cleaned(text(value, "subPath"));
        let sub_path = match text(value, "subPathExpr") {
            "" if path.is_empty() => SubPath::Everything,
            "" => SubPath::Path(path),
            _ => SubPath::Expression,
        };
        self.mounts.push(Mount {
            volume: text(value, "name").to_owned(),
            sub_path,
            container: self.container.clone(),
        });
    }

    /// Adds the volumes. In a template, containers precede volumes, but the walk may visit them in any order.
    fn finish(mut self) -> Vec<Reference> {
        for source in self.sources.into_iter().filter(|it| !it.name.is_empty()) {
            let mounts = self.mounts.iter().filter(|it| it.volume == source.volume);
            let before = self.found.len();
            self.found.extend(mounts.map(|mount| source.mounted(mount)));
            if self.found.len() == before {
                self.found.push(source.used(None, Usage::Unmounted, None));
            }
        }
        self.found
    }
}

// === impl VolumeSource ===

impl VolumeSource {
    fn mounted(&self, mount: &Mount) -> Reference {
        let container = mount.container.clone();
        let is_class = self.kind == ConfigurationKind::SecretProviderClass;
        let path = match &mount.sub_path {
            SubPath::Everything => return self.used(self.all_keys(), Usage::Volume, container),
            SubPath::Path(path) if !is_class => path,
            _ => return self.used(self.all_keys(), Usage::SubPath, container),
        };
        let keys: Vec<String> = match &self.items {
            // Keys have no slashes.
            None if path.contains('/') => Vec::new(),
            None => vec![path.clone()],
            Some(items) => {
                let is_in = |file: &str| match cleaned(file).strip_prefix(path.as_str()) {
                    Some(rest) => rest.is_empty() || rest.starts_with('/'),
                    None => false,
                };
                let items = items.iter().filter(|(_, file)| is_in(file));
                items.map(|(key, _)| key.clone()).collect()
            }
        };
        if keys.is_empty() {
            // No file of the volume is mounted.
            self.used(None, Usage::Unmounted, container)
        } else {
            self.used(Some(keys), Usage::SubPath, container)
        }
    }

    fn all_keys(&self) -> Option<Vec<String>> {
        let items = self.items.as_ref()?;
        Some(items.iter().map(|(key, _)| key.clone()).collect())
    }

    fn used(
        &self,
        keys: Option<Vec<String>>,
        usage: Usage,
        container: Option<ContainerAt>,
    ) -> Reference {
        Reference {
            kind: self.kind,
            name: self.name.clone(),
            keys,
            usage,
            optional: self.optional,
            // The kubelet creates an empty directory for a subPath that does not exist (kubelet_pods.go: `makeMounts`), but
            // no volume without its items (volume/configmap: `MakePayload`).
            required_keys: self.all_keys().unwrap_or_default(),
            projected: self.projected,
            container,
        }
    }
}

/// The path without empty components and dots, as the kubelet joins it with that of the volume. The files of a volume are
/// links to those in its directory `..data` (volume/util/atomic_writer.go).
fn cleaned(path: &str) -> String {
    let components = path.split('/').filter(|it| !matches!(*it, "" | "."));
    let components: Vec<_> = components.collect();
    components
        .strip_prefix(&["..data"])
        .unwrap_or(&components)
        .join("/")
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn is_optional(value: &Value) -> bool {
    value.get("optional") == Some(&Value::Bool(true))
}
