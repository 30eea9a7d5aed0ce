# Images of the service and of the Go adapter, from the root of the repository:
#
#   docker build --target service -t REGISTRY/rollplan:TAG .
#   docker build --target adapter -t REGISTRY/rollplan-controller:TAG .

FROM rust:1.95-bookworm AS build-service
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin rollplan

FROM golang:1.26-bookworm AS build-adapter
WORKDIR /src/adapters/go
COPY adapters/go/go.mod adapters/go/go.sum ./
RUN go mod download
COPY adapters/go ./
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w" -o /rollplan-controller ./cmd/rollplan-controller

# cc and not static: the service links glibc.
FROM gcr.io/distroless/cc-debian12:nonroot AS service
COPY --from=build-service /src/target/release/rollplan /rollplan
ENTRYPOINT ["/rollplan"]
CMD ["serve", "--listen", "0.0.0.0:50051", "--http-listen", "0.0.0.0:9464"]

FROM gcr.io/distroless/static-debian12:nonroot AS adapter
COPY --from=build-adapter /rollplan-controller /rollplan-controller
ENTRYPOINT ["/rollplan-controller"]
