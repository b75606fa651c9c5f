#!/bin/sh
# `check-apple.sh <folder>`: type-checks the SDK with its parts for Apple's systems, against stubs. Output goes into the folder.
set -eu
mkdir -p "$1"
out=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
for name in UIKit SwiftUI AdAttributionKit; do
  swiftc -swift-version 6 -parse-as-library -emit-module -module-name "$name" -I "$out" -o "$out/$name.swiftmodule" "testing/stubs/$name.swift"
done
swiftc -swift-version 6 -typecheck -warnings-as-errors -module-name Signpost -I "$out" Sources/Signpost/*.swift Sources/Signpost/Apple/*.swift
