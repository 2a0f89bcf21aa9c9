use rsa::pkcs8::{EncodePrivateKey as _, EncodePublicKey as _};
use rsa::{BoxedUint, PrivateKey};

use super::{blind, blind_sign, bytes, finalize, verify, Refused};

type Done = Result<(), Refused>;

const VECTOR: &str = include_str!("../../../tests/vectors/rfc9474_randomized.json");

/// A value of the vector's file, which holds one pair of texts a line.
fn field(name: &str) -> Vec<u8> {
    let start = format!(" \"{name}\": \"");
    let line = VECTOR
        .lines()
        .find_map(|line| line.strip_prefix(&start))
        .unwrap_or_default();
    let digits: Vec<u8> = line.bytes().take_while(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .filter_map(|pair| u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}

fn number(name: &str) -> BoxedUint {
    BoxedUint::from_be_slice_vartime(&field(name))
}

fn key() -> Result<PrivateKey, Refused> {
    let primes = vec![number("p"), number("q")];
    PrivateKey::from_components(number("n"), number("e"), number("d"), primes)
        .map_err(|_| Refused::Key)
}

fn public() -> Result<Vec<u8>, Refused> {
    key()?
        .to_public_key()
        .to_public_key_der()
        .map(|der| der.as_bytes().to_vec())
        .map_err(|_| Refused::Key)
}

/// The blinding factor is not in the vector; its inverse is.
fn factor() -> Result<Vec<u8>, Refused> {
    let key = key()?.to_public_key();
    let found: Option<BoxedUint> = super::number(&key, &field("inv"))?
        .invert_mod(rsa::traits::PublicKeyParts::n(&key))
        .into();
    Ok(bytes(&key, &found.ok_or(Refused::Input)?))
}

#[test]
fn the_vector_of_the_rfc_is_reproduced() -> Done {
    let (public, prepared) = (public()?, field("prepared_msg"));
    let (blinded, inverse) = blind(&public, &prepared, &field("salt"), &factor()?)?;
    assert_eq!(blinded, field("blinded_msg"));
    assert_eq!(inverse, field("inv"));
    let private = key()?.to_pkcs8_der().map_err(|_| Refused::Key)?;
    assert_eq!(
        blind_sign(private.as_bytes(), &blinded)?,
        field("blind_sig")
    );
    let signature = finalize(&public, &prepared, &field("blind_sig"), &inverse)?;
    assert_eq!(signature, field("sig"));
    verify(&public, &prepared, &signature)
}

#[test]
fn what_is_changed_does_not_verify() -> Done {
    let (public, prepared, signature) = (public()?, field("prepared_msg"), field("sig"));
    let other: Vec<u8> = prepared.iter().map(|byte| byte ^ 1).collect();
    assert_eq!(verify(&public, &other, &signature), Err(Refused::Signature));
    let reversed: Vec<u8> = signature.iter().rev().copied().collect();
    assert_eq!(
        verify(&public, &prepared, &reversed),
        Err(Refused::Signature)
    );
    assert_eq!(verify(&public, &prepared, &[]), Err(Refused::Signature));
    assert_eq!(
        finalize(&public, &prepared, &signature, &field("inv")),
        Err(Refused::Signature)
    );
    Ok(())
}

#[test]
fn what_is_out_of_range_is_refused() -> Done {
    let (public, prepared, salt) = (public()?, field("prepared_msg"), field("salt"));
    let modulus = field("n");
    let zero = vec![0; modulus.len()];
    let private = key()?.to_pkcs8_der().map_err(|_| Refused::Key)?;
    for wrong in [&modulus, &zero, &Vec::new()] {
        assert_eq!(blind(&public, &prepared, &salt, wrong), Err(Refused::Input));
        assert_eq!(blind_sign(private.as_bytes(), wrong), Err(Refused::Input));
        assert_eq!(
            finalize(&public, &prepared, wrong, &field("inv")),
            Err(Refused::Input)
        );
    }
    assert_eq!(
        blind(&public, &prepared, &[], &factor()?),
        Err(Refused::Input)
    );
    assert_eq!(
        verify(&[1, 2, 3], &prepared, &field("sig")),
        Err(Refused::Key)
    );
    assert_eq!(
        blind_sign(&public, &field("blinded_msg")),
        Err(Refused::Key)
    );
    Ok(())
}
