# Both images for all platforms: `docker buildx bake`, or with --push, as a release does.
#   VERSION=0.1.0 REVISION=$(git rev-parse HEAD) IMAGE=registry/mocketmq docker buildx bake --push
variable "IMAGE" {
  default = "mocketmq"
}
variable "VERSION" {
  default = ""
}
variable "REVISION" {
  default = ""
}

group "default" {
  targets = ["emulator", "report"]
}

target "_common" {
  context   = "."
  platforms = ["linux/amd64", "linux/arm64"]
  args = {
    VERSION  = VERSION
    REVISION = REVISION
  }
  attest = ["type=provenance,mode=max", "type=sbom"]
}

target "emulator" {
  inherits = ["_common"]
  tags     = compact(["${IMAGE}:latest", VERSION == "" ? "" : "${IMAGE}:${VERSION}"])
}

target "report" {
  inherits = ["_common"]
  target   = "report"
  tags     = compact(["${IMAGE}-report:latest", VERSION == "" ? "" : "${IMAGE}-report:${VERSION}"])
}
