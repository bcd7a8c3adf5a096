package mocketmqtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	urlVariable    = "MOCKETMQ_URL"
	tokenVariable  = "MOCKETMQ_TOKEN"
	bundleVariable = "MOCKETMQ_BUNDLE"
)

var errNoProgram = errors.New("no mocketmq was found: put mocketmq on the PATH, set " + bundleVariable +
	" to the folder or the archive of a bundle, or set " + urlVariable + " to the address of a running broker")

// findProgram returns the mocketmq to start.
func findProgram() (string, error) {
	if bundle := os.Getenv(bundleVariable); bundle != "" {
		return programOfBundle(bundle)
	}
	program, err := exec.LookPath("mocketmq")
	if err != nil {
		return "", errNoProgram
	}
	return program, nil
}

func programOfBundle(bundle string) (string, error) {
	found, err := os.Stat(bundle)
	if err != nil {
		return "", fmt.Errorf("%s is %q, which cannot be read: %w", bundleVariable, bundle, err)
	}
	folder := bundle
	if !found.IsDir() {
		if folder, err = unpack(bundle); err != nil {
			return "", fmt.Errorf("%s is %q, which cannot be unpacked: %w", bundleVariable, bundle, err)
		}
	}
	name := "mocketmq"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	// An archive has one folder, which has the program.
	for _, pattern := range []string{name, filepath.Join("*", name)} {
		programs, _ := filepath.Glob(filepath.Join(folder, pattern))
		for _, program := range programs {
			if about, err := os.Stat(program); err == nil && about.Mode().IsRegular() {
				return filepath.Abs(program)
			}
		}
	}
	return "", fmt.Errorf("%s is %q, which has no program %s: name the folder that has it, or the archive",
		bundleVariable, bundle, name)
}

// unpack returns the user's copy of the archive, which its digest names. Test processes may unpack it at the
// same time: each unpacks into a folder of its own, and the first to finish gives it the name.
func unpack(archive string) (string, error) {
	digest, err := digestOf(archive)
	if err != nil {
		return "", err
	}
	if sums, err := os.ReadFile(archive + ".sha256"); err == nil {
		if wanted, _, _ := strings.Cut(string(sums), " "); strings.TrimSpace(wanted) != digest {
			return "", fmt.Errorf("its SHA-256 sum is %s, not that of %s.sha256", digest, archive)
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, "mocketmq", "bundle-"+digest[:16])
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return "", err
	}
	own, err := os.MkdirTemp(filepath.Dir(folder), "unpacking-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(own)
	// The standard library cannot read xz.
	if output, err := exec.Command("tar", "-xf", archive, "-C", own).CombinedOutput(); err != nil {
		return "", fmt.Errorf("tar: %w: %s", err, output)
	}
	if err := os.Rename(own, folder); err != nil {
		if _, there := os.Stat(folder); there != nil {
			return "", err
		}
	}
	return folder, nil
}

func digestOf(file string) (string, error) {
	opened, err := os.Open(file)
	if err != nil {
		return "", err
	}
	defer opened.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, opened); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
