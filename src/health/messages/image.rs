//! Images that cannot be pulled.
//!
//! The kubelet reports the error of the runtime, in the status also after a back-off (pkg/kubelet/images/image_manager.go,
//! `EnsureImageExists`, `evalCRIPullErr`). An answer of the registry that an image does not exist, or that access is denied,
//! will be repeated until somebody changes that. Rate limits, errors of the server and of the network pass. A registry that
//! lacks a part of an image may be a mirror that has not fetched it yet.

use super::Resolver::{Image, Node, Platform, Registry, Template, Time};
use super::{Row, Table};

/// The beginning of an event about a failed attempt to pull an image (kubelet: pkg/kubelet/images/image_manager.go).
pub(crate) const FAILED_PULL: &str = "Failed to pull image ";
/// The beginning of the text of the kubelet between two attempts.
pub(crate) const BACK_OFF_PULL: &str = "Back-off pulling image ";

/// The remedy if an image does not exist.
const PUSH: &str = "correct the image name or its tag, or push the image";
/// The remedy if a registry denies access.
const ACCESS: &str =
    "check imagePullSecrets and the rights of their account, or the name of the image";
/// The remedy for a name that the runtime does not complete.
const SHORT: &str = "write the registry into the name of the image";
/// The remedy for a registry that does not answer.
const REACH: &str = "check that the node can reach the registry";
/// The remedy for a name without an address.
const NAME: &str =
    "correct the name of the registry in the image name, or check the DNS of the node";
/// The remedy for a registry that lacks a part of an image.
const PARTS: &str = "push the image again: the registry, or a mirror before it, lacks a part of it";
/// The remedy if the server denies access to which a registry redirects for the parts of an image.
const REDIRECTED: &str = "let the network of node <node> read from <host>: check its proxies and, in a cloud, the policy of the endpoint";
/// The remedy for an answer of another server than a registry.
const PROXY: &str = "check the registry, and the proxies and mirrors before it";
/// The remedy for a certificate that is not valid.
const TRUST: &str = "let the runtime of node <node> trust the certificate of the registry, or correct the certificate";
/// The remedy for an image without the platform of the node.
const PLATFORM: &str = "push the image for the platform of node <node>, or select other nodes (nodeSelector kubernetes.io/arch)";
/// The remedy for a rate limit.
const LIMIT: &str = "wait until the registry accepts more requests; to raise the limit, pull with an account (imagePullSecrets) or from a mirror";

pub(crate) const TABLE: Table = Table {
    reasons: &[
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    ],
    wrappers: &[
        // kubelet: pkg/kubelet/images/image_manager.go, pullImage, EnsureImageExists.
        "Failed to pull image \"<image...>\": ",
        "Back-off pulling image \"<image...>\": ",
        "ErrImagePull: ",
        "rpc error: code = <code> desc = ",
        "Failed to apply default image tag \"<image...>\": ",
        "couldn't parse image name \"<image...>\": ",
        "couldn't parse image reference \"<image...>\": ",
        "Failed to inspect image \"<image...>\": ",
        // containerd: internal/cri/server/images/image_pull.go, PullImage; client/pull.go, fetch;
        // core/transfer/local/pull.go.
        "failed to pull and unpack image \"<image...>\": ",
        "failed to resolve reference \"<image...>\": ",
        "failed to resolve image: ",
        "failed to unpack image on snapshotter <snapshotter>: ",
        // containerd: core/remotes/docker/resolver.go, do; authorizer.go, doBearerAuth; httpreadseeker.go;
        // core/content/helpers.go.
        "failed to do request: ",
        "failed to authorize: ",
        "failed to fetch oauth token: ",
        "failed to fetch anonymous token: ",
        "failed to copy: ",
        "httpReadSeeker: failed open: ",
        // containerd: core/remotes/errors/errors.go, Error; up to 2.1 core/remotes/docker/fetcher.go; up to 1.6 resolver.go.
        "unexpected status from <method> request to <url...>: ",
        "unexpected status code <url...>: ",
        "unexpected HEAD status code <url...>: ",
        "unexpected status: ",
        "pulling from host <host> failed with unexpected status code <url...>: ",
        "pulling from host <host> failed with status code <path...>: ",
        // containerd: pkg/rootfs/apply.go, applyLayer; core/unpack/unpacker.go.
        "failed to extract layer <digest>: ",
        "failed to extract layer (<media_type> <digest>) to <snapshotter> as \"<key...>\": ",
        // net/http of Go, url.Error.
        "Get \"<url>\": ",
        "Head \"<url>\": ",
        // CRI-O: internal/storage/image.go, PullImage; containers/image: copy/copy.go, docker/docker_client.go,
        // docker/docker_image_src.go.
        "unable to pull image or OCI artifact: ",
        "unable to pull image: ",
        "pull image err: ",
        "initializing source <image>: ",
        "reading manifest <tag> in <repository>: ",
        "(Mirrors also failed: <mirrors...>): <image>: ",
        "pinging container registry <host>: ",
        "choosing an image from manifest list <image>: ",
        "copying system image from manifest list: ",
        "writing blob: ",
        "fetching blob: ",
        "requesting bearer token: ",
        "choosing image instance: ",
        "received unexpected HTTP status: ",
        // dockerd with cri-dockerd: daemon/images/image_pull.go.
        "Error response from daemon: ",
        "failed to register layer: ",
    ],
    endings: &[
        // containerd adds the class of an error that it does not know (errdefs).
        ": unknown",
        // CRI-O: internal/storage/image.go, PullImage.
        "; artifact err: <error...>",
    ],
    rows: &[
        // kubelet: pkg/kubelet/images/image_manager.go, EnsureImageExists.
        Row::definite(
            "Container image \"<image...>\" is not present with pull policy of Never",
            Template,
            "load the image on the node, or change imagePullPolicy",
        ),
        Row::undecided("pull QPS exceeded", Time, ""),
        // Kubelets before 1.32 report the error in an event only.
        Row::undecided(
            "Back-off pulling image \"<image>\"",
            Time,
            "read the events of the pod: kubectl describe pod <pod> -n <namespace>",
        )
        .showing("only its events show why"),
        // kubelet: pkg/util/parsers/parsers.go, ParseImageName, with the errors of distribution/reference.
        Row::definite("invalid reference format", Template, "correct the name of the image"),
        Row::definite("invalid reference format: <error...>", Template, "correct the name of the image"),
        // CRI-O: internal/storage/image.go, CandidatesForPotentiallyShortImageName, with the errors of containers/image,
        // pkg/shortnames/shortnames.go, Resolve; in earlier versions ErrNoRegistriesConfigured.
        Row::definite(
            "short name mode is enforcing, but image name <image> returns ambiguous list",
            Template,
            SHORT,
        ),
        Row::definite(
            "short-name \"<image>\" did not resolve to an alias and no unqualified-search registries are defined in \"<file>\"",
            Template,
            SHORT,
        ),
        Row::definite(
            "no registries configured while trying to pull an unqualified image, add at least one in either <files...>",
            Template,
            SHORT,
        ),
        // kubelet: pkg/kubelet/images/image_manager.go, evalCRIPullErr; CRI-O: server/image_pull.go, PullImage (connection
        // refused), internal/storage/image.go, WrapSignatureCRIErrorIfNeeded (rejected by the policy of the node).
        Row::undecided(
            "image pull failed for <image...> because the registry is unavailable: <error...>",
            Registry,
            REACH,
        )
        .showing("the registry is unavailable: <error>"),
        Row::undecided("RegistryUnavailable: <error...>", Registry, REACH)
            .showing("the registry is unavailable: <error>"),
        Row::definite(
            "image pull failed for <image...> because the signature validation failed: <error...>",
            Image,
            "sign the image as the policy of node <node> demands, or change the policy",
        )
        .showing("the signature validation failed: <error>"),
        Row::definite(
            "SignatureValidationFailed: <error...>",
            Image,
            "sign the image as the policy of node <node> demands, or change the policy",
        )
        .showing("the signature validation failed: <error>"),
        // containerd: core/images/handlers.go, LimitManifests; core/images/image.go, Manifest.
        Row::definite("no match for platform in manifest: not found", Platform, PLATFORM)
            .showing("no match for platform in manifest"),
        Row::definite("no match for platform in manifest <digest>: not found", Platform, PLATFORM)
            .showing("no match for platform in manifest"),
        // containers/image: internal/manifest/oci_index.go and docker_schema2_list.go, ChooseInstanceByCompression.
        Row::definite(
            "no image found in image index for architecture \"<arch>\", variant \"<variant...>\", OS \"<os>\"",
            Platform,
            PLATFORM,
        )
        .showing("no image found in image index for platform <os>/<arch>"),
        Row::definite(
            "no image found in manifest list for architecture \"<arch>\", variant \"<variant...>\", OS \"<os>\"",
            Platform,
            PLATFORM,
        )
        .showing("no image found in manifest list for platform <os>/<arch>"),
        // dockerd: distribution/pull_v2.go, noMatchesErr.
        Row::definite(
            "no matching manifest for <platform> in the manifest list entries<details...>",
            Platform,
            PLATFORM,
        )
        .showing("no matching manifest for platform <platform>"),
        // containerd: core/images/image.go, Manifest. A proxy or a login page answers with text/html.
        Row::undecided(
            "unexpected media type <media_type> for <digest>: not found",
            Registry,
            "check the registry, and the proxies and mirrors before it: the answer is not an image",
        ),
        // containerd: client/pull.go, fetch; core/remotes/docker/resolver.go, Resolve.
        Row::definite(
            "not implemented: media type \"<media_type>\" is no longer supported since containerd <version>, please rebuild the \
             image as <types...>",
            Image,
            "build and push the image again: the runtime of node <node> no longer supports the format of its manifest",
        ),
        // containerd: plugins/content/local/writer.go, Commit.
        Row::undecided(
            "failed commit on ref \"<ref>\": unexpected commit digest <digest>, expected <expected>: failed precondition",
            Registry,
            "check the registry, and the proxies and mirrors before it: the answer is not the expected part of the image",
        ),
        // containerd: core/remotes/docker/fetcher.go, Fetch, FetchByDigest; resolver.go, withErrorCheck.
        Row::undecided(
            "could not fetch content descriptor <digest> (<media_type>) from remote: not found",
            Registry,
            PARTS,
        ),
        Row::undecided("could not fetch content <digest> from remote: not found", Registry, PARTS),
        Row::undecided("content at <url> not found: not found", Registry, PARTS),
        // containerd: core/remotes/docker/resolver.go, Resolve: the registry answered 404 for the tag or digest.
        Row::definite("failed to resolve reference \"<image...>\": not found", Registry, PUSH)
            .showing("not found"),
        Row::definite("<image>: not found", Registry, PUSH).showing("not found"),
        // containerd: core/remotes/docker/resolver.go, Resolve, with the errors of authorizer.go.
        Row::definite(
            "pull access denied, repository does not exist or may require authorization: <error...>",
            Registry,
            ACCESS,
        ),
        // dockerd: distribution/errors.go, Error, translatePullError.
        Row::definite(
            "pull access denied for <image>, repository does not exist or may require 'docker login'<details...>",
            Registry,
            ACCESS,
        ),
        Row::definite("manifest for <image> not found: manifest unknown<details...>", Registry, PUSH),
        // The answers of registries: distribution, registry/api/errcode and registry/api/v2/errors.go, as containers/image
        // and dockerd print them.
        Row::definite("manifest unknown<details...>", Registry, PUSH),
        Row::definite("name unknown<details...>", Registry, PUSH),
        Row::definite("repository name not known to registry<details...>", Registry, PUSH),
        Row::definite("unauthorized: <details...>", Registry, ACCESS),
        Row::definite("authentication required<details...>", Registry, ACCESS),
        Row::definite("denied: <details...>", Registry, ACCESS),
        Row::definite("requested access to the resource is denied<details...>", Registry, ACCESS),
        Row::undecided("toomanyrequests: <details...>", Time, LIMIT),
        // containers/image: docker/errors.go, httpResponseToError, registryHTTPResponseToError: not the answer of a
        // registry.
        Row::definite(
            "unable to retrieve auth token: invalid username/password: <details...>",
            Registry,
            ACCESS,
        ),
        Row::undecided("too many requests to registry", Time, LIMIT),
        Row::undecided("StatusCode: <status>, <body...>", Registry, PROXY),
        Row::undecided("error parsing HTTP <status> response body: <body...>", Registry, PROXY)
            .showing("the answer with HTTP status <status> is not that of a registry"),
        // containerd: core/remotes/docker/httpreadseeker.go, reader. The parts of an image are often in a store of their own,
        // such as S3: the registry has permitted the pull, and redirects to it.
        Row::definite(
            "httpReadSeeker: failed open: unexpected status from <method> request to <url...>/manifests/<reference...>: 403 <phrase...>",
            Registry,
            ACCESS,
        )
        .showing("403 <phrase>"),
        Row::definite(
            "httpReadSeeker: failed open: unexpected status code <url...>/manifests/<reference...>: 403 <phrase...>",
            Registry,
            ACCESS,
        )
        .showing("403 <phrase>"),
        Row::undecided(
            "httpReadSeeker: failed open: unexpected status from <method> request to https://<host>/<path...>: 403 <phrase...>",
            Registry,
            REDIRECTED,
        )
        .showing("<host>: 403 <phrase>"),
        Row::undecided(
            "httpReadSeeker: failed open: unexpected status code https://<host>/<path...>: 403 <phrase...>",
            Registry,
            REDIRECTED,
        )
        .showing("<host>: 403 <phrase>"),
        // The status of a response (net/http of Go), after its wrapper. The registry may explain it.
        Row::definite("401 <phrase...>", Registry, ACCESS),
        Row::definite("403 <phrase...>", Registry, ACCESS),
        Row::undecided("429 <phrase...>", Time, LIMIT),
        Row::undecided("4<digits> <phrase...>", Registry, "check the registry"),
        Row::undecided("5<digits> <phrase...>", Registry, "check the registry"),
        // The file system of the node, while a layer is written or extracted.
        Row::undecided(
            "<operation...>: no space left on device",
            Node,
            "free disk space on the node: kubectl describe node <node>",
        )
        .showing("no space left on device"),
        Row::undecided("<operation...>: input/output error", Node, ""),
        Row::undecided("<operation...>: read-only file system", Node, ""),
        // net and crypto/x509 of Go.
        Row::undecided("dial tcp: lookup <host...>: no such host", Registry, NAME),
        Row::undecided("dial tcp <address>: connect: connection refused", Registry, REACH),
        Row::undecided("dial tcp <address>: i/o timeout", Registry, REACH),
        Row::undecided("dial tcp <address>: connect: no route to host", Registry, REACH),
        Row::undecided("dial tcp <address>: connect: network is unreachable", Registry, REACH),
        Row::undecided("net/http: TLS handshake timeout", Registry, REACH),
        Row::undecided("net/http: request canceled<details...>", Registry, REACH),
        Row::undecided("context deadline exceeded<details...>", Registry, REACH),
        Row::undecided("read tcp <addresses>: read: connection reset by peer", Registry, REACH),
        Row::undecided("<operation...>: unexpected EOF", Registry, REACH),
        Row::undecided("tls: failed to verify certificate: <error...>", Registry, TRUST),
        Row::undecided("x509: certificate signed by unknown authority<details...>", Registry, TRUST),
        Row::undecided("x509: certificate has expired or is not yet valid: <details...>", Registry, TRUST),
        Row::undecided(
            "http: server gave HTTP response to HTTPS client",
            Registry,
            "let the registry use TLS, or configure it as an insecure registry in the runtime of node <node>",
        ),
    ],
};
