# Images of the service and of the Go adapter, from the root of the repository:
#
#   docker build --target service --build-arg VERSION=TAG --build-arg REVISION="$(git rev-parse HEAD)" \
#     -t REGISTRY/rollplan:TAG .
#   docker build --target adapter --build-arg VERSION=TAG --build-arg REVISION="$(git rev-parse HEAD)" \
#     -t REGISTRY/rollplan-controller:TAG .
#
# Base images are pinned by the digest of their index, which covers all platforms. To update one:
# docker buildx imagetools inspect IMAGE:TAG

FROM rust:1.95-bookworm@sha256:6258907abe69656e41cd992e0b705cdcfabcbbe3db374f92ed2d47121282d4a1 AS build-service
WORKDIR /src
# The dependencies are a layer of their own, which is built again only when one of these files changes. Cargo wants to
# see the targets that they name: empty ones do.
COPY Cargo.toml Cargo.lock ./
COPY src/core/Cargo.toml src/core/
COPY tests/sim/Cargo.toml tests/sim/
RUN mkdir -p tests/it tests/mesh tests/shells tests/sim/src benches/serve \
  && touch src/lib.rs src/core/lib.rs tests/sim/src/lib.rs \
  && for file in build.rs src/main.rs tests/plan_lines.rs tests/it/main.rs tests/mesh/main.rs tests/shells/main.rs \
    tests/sim/src/main.rs benches/plan.rs benches/serve/main.rs; do echo 'fn main() {}' >"$file"; done \
  && cargo build --release --locked --bin rollplan \
  && rm -r build.rs src tests benches target/release/.fingerprint/rollplan-*
COPY . .
# The commit in rollplan_build_info: the repository itself is not copied.
ARG REVISION
RUN ROLLPLAN_COMMIT="$REVISION" cargo build --release --locked --bin rollplan

FROM golang:1.26-bookworm@sha256:b305420a68d0f229d91eb3b3ed9e519fcf2cf5461da4bef997bf927e8c0bfd2b AS build-adapter
WORKDIR /src/adapters/go
COPY adapters/go/go.mod adapters/go/go.sum ./
RUN go mod download
COPY adapters/go ./
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /rollplan-controller ./cmd/rollplan-controller

# cc and not static: the service links glibc.
FROM gcr.io/distroless/cc-debian12:nonroot@sha256:9dac0a79194e45a7da0158a9c6da57b217585af0786db3845d1f0ec1a0dd182f AS service
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rollplan" \
  org.opencontainers.image.description="The decisions of the Kubernetes Deployment controller, as a gRPC service" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
COPY --from=build-service /src/target/release/rollplan /rollplan
# gRPC; metrics and probes.
EXPOSE 50051 9464
USER 65532:65532
ENTRYPOINT ["/rollplan"]
CMD ["serve", "--listen", "0.0.0.0:50051", "--http-listen", "0.0.0.0:9464"]

FROM gcr.io/distroless/static-debian12:nonroot@sha256:afa5c872c891853ca7fcf1f12c3edb23f7eeef36189728842dd51042ff57f7ab AS adapter
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title="rollplan-controller" \
  org.opencontainers.image.description="A controller for Deployments that carries out the plans of rollplan" \
  org.opencontainers.image.licenses="Apache-2.0" \
  org.opencontainers.image.version="${VERSION}" \
  org.opencontainers.image.revision="${REVISION}"
COPY --from=build-adapter /rollplan-controller /rollplan-controller
USER 65532:65532
ENTRYPOINT ["/rollplan-controller"]
