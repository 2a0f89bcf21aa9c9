// Verify checks what interlock's log and witnesses make, with other people's code only.
//
//	verify checkpoint ORIGIN LOG-VKEY FILE [WITNESS-VKEY ...]   every named key must have signed
//	verify policy POLICY-FILE CHECKPOINT-FILE                   the policy's quorum must hold
//	verify proof ORIGIN LOG-VKEY POLICY-FILE PROOF-FILE ENTRY-FILE
//	verify consistency OLD-SIZE OLD-ROOT NEW-SIZE NEW-ROOT [HASH ...]   roots and hashes in hex
package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/transparency-dev/formats/log"
	fnote "github.com/transparency-dev/formats/note"
	tlogproof "github.com/transparency-dev/formats/proof"
	"github.com/transparency-dev/formats/witness"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Println("refused:", err)
		os.Exit(1)
	}
	fmt.Println("accepted")
}

func run(args []string) error {
	if len(args) < 3 {
		return errors.New("usage: verify checkpoint|policy|proof|consistency ...")
	}
	switch args[0] {
	case "checkpoint":
		raw, err := os.ReadFile(args[3])
		if err != nil {
			return err
		}
		_, err = checkpoint(args[1], args[2], raw, args[4:])
		return err
	case "policy":
		raw, err := os.ReadFile(args[2])
		if err != nil {
			return err
		}
		return quorum(args[1], raw)
	case "proof":
		return wholeProof(args[1], args[2], args[3], args[4], args[5])
	case "consistency":
		return consistency(args[1:])
	}
	return fmt.Errorf("no such check: %s", args[0])
}

// logVerifier reads a log's vkey: a plain Ed25519 key with sumdb's own code, any other as formats does.
func logVerifier(vkey string) (note.Verifier, error) {
	if v, err := note.NewVerifier(vkey); err == nil {
		return v, nil
	}
	return fnote.NewVerifierForCosignatureV1(vkey)
}

func checkpoint(origin, vkey string, raw []byte, witnesses []string) (*log.Checkpoint, error) {
	own, err := logVerifier(vkey)
	if err != nil {
		return nil, err
	}
	var others []note.Verifier
	for _, key := range witnesses {
		v, err := fnote.NewVerifierForCosignatureV1(key)
		if err != nil {
			return nil, err
		}
		others = append(others, v)
	}
	cp, rest, n, err := log.ParseCheckpoint(raw, origin, own, others...)
	if err != nil {
		return nil, err
	}
	if len(rest) != 0 {
		return nil, errors.New("checkpoint has extension lines")
	}
	if len(n.Sigs) != 1+len(others) {
		return nil, fmt.Errorf("%d of %d keys signed", len(n.Sigs), 1+len(others))
	}
	return cp, nil
}

func quorum(file string, raw []byte) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	policy, err := witness.ParsePolicy(data)
	if err != nil {
		return err
	}
	if !policy.Satisfied(raw) {
		return errors.New("the policy's quorum does not hold")
	}
	return nil
}

func wholeProof(origin, vkey, policyFile, proofFile, entryFile string) error {
	data, err := os.ReadFile(proofFile)
	if err != nil {
		return err
	}
	entry, err := os.ReadFile(entryFile)
	if err != nil {
		return err
	}
	var p tlogproof.TLogProof
	if err := p.Unmarshal(data); err != nil {
		return err
	}
	cp, err := checkpoint(origin, vkey, p.Checkpoint, nil)
	if err != nil {
		return err
	}
	if err := quorum(policyFile, p.Checkpoint); err != nil {
		return err
	}
	hashes := make([][]byte, len(p.Hashes))
	for i := range p.Hashes {
		hashes[i] = p.Hashes[i][:]
	}
	leaf := rfc6962.DefaultHasher.HashLeaf(entry)
	return proof.VerifyInclusion(rfc6962.DefaultHasher, p.Index, cp.Size, leaf, hashes, cp.Hash)
}

func consistency(args []string) error {
	if len(args) < 4 {
		return errors.New("usage: verify consistency OLD-SIZE OLD-ROOT NEW-SIZE NEW-ROOT [HASH ...]")
	}
	oldSize, err1 := strconv.ParseUint(args[0], 10, 64)
	newSize, err2 := strconv.ParseUint(args[2], 10, 64)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	var hashes [][]byte
	for _, text := range append([]string{args[1], args[3]}, args[4:]...) {
		h, err := hex.DecodeString(text)
		if err != nil {
			return err
		}
		hashes = append(hashes, h)
	}
	return proof.VerifyConsistency(rfc6962.DefaultHasher, oldSize, newSize, hashes[2:], hashes[0], hashes[1])
}
