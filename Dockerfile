# Images of the service and of the Go adapter, from static binaries. packaging/images.py builds the binaries, and writes
# the same images as OCI archives. From the root of the repository:
#
#   python3 packaging/images.py
#   docker build --target service -t REGISTRY/rollplan:TAG -f Dockerfile target/images/amd64
#   docker build --target adapter -t REGISTRY/rollplan-controller:TAG -f Dockerfile target/images/amd64
#
# The target `command` builds the command from source, with what the scripts of examples/pipelines need. It requires only a
# container builder:
#
#   docker build --target command -t REGISTRY/rollplan-command:TAG .

FROM scratch AS service
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rollplan" \
  org.opencontainers.image.description="The decisions of the Kubernetes Deployment controller, as a gRPC service" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
COPY --chmod=644 ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --chmod=755 rollplan /rollplan
# Calls; metrics and probes.
EXPOSE 50051 9464
USER 65532:65532
ENTRYPOINT ["/rollplan"]
CMD ["serve", "--listen", "0.0.0.0:50051", "--http-listen", "0.0.0.0:9464"]

FROM scratch AS adapter
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rollplan-controller" \
  org.opencontainers.image.description="A controller for Deployments that carries out the plans of rollplan" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
COPY --chmod=644 ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --chmod=755 rollplan-controller /rollplan-controller
# Metrics; probes.
EXPOSE 8080 8081
USER 65532:65532
ENTRYPOINT ["/rollplan-controller"]

FROM rust:1.95-trixie AS build
WORKDIR /rollplan
COPY . .
RUN cargo build --release --locked --bin rollplan

FROM registry.k8s.io/kubectl:v1.37.2 AS kubectl

FROM debian:trixie-slim AS command
LABEL org.opencontainers.image.title="rollplan-command" \
  org.opencontainers.image.description="The rollplan command with bash, jq and kubectl, for pipelines" \
  org.opencontainers.image.licenses="Apache-2.0"
# Versions are those of the Debian release, with its security updates.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends bash ca-certificates curl git jq && rm -rf /var/lib/apt/lists/*
COPY --from=kubectl /bin/kubectl /usr/local/bin/kubectl
COPY --from=build /rollplan/target/release/rollplan /usr/local/bin/rollplan
RUN useradd --uid 65532 --create-home rollplan
USER 65532:65532
WORKDIR /home/rollplan
CMD ["rollplan", "--help"]
