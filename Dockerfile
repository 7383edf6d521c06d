# The operator's image: docker build --tag REGISTRY/whalezen-operator:TAG .
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN cargo build --release --locked --bin whalezen-operator

# glibc and libgcc, and nothing to log in with.
FROM gcr.io/distroless/cc-debian12:nonroot
COPY --from=build /src/target/release/whalezen-operator /whalezen-operator
ENTRYPOINT ["/whalezen-operator"]
