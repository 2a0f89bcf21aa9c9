//! Opening what was sealed to an aggregator: RFC 9180, base mode, one message a key, the suite that DAP demands.
//!
//! DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. What hangs on the application's `info` alone is worked out once
//! for a whole job; the public key is an argument, for to work it out of the private one costs as much as to open.

use aes_gcm::aead::{Aead as _, KeyInit as _, Payload};
use aes_gcm::Aes128Gcm;
use hkdf::Hkdf;
use sha2::Sha256;
use subtle::ConstantTimeEq as _;

const KEY_SIZE: usize = 32;
const LABEL: &[u8] = b"HPKE-v1";
const KEM_SUITE: &[u8] = b"KEM\x00\x20";
const SUITE: &[u8] = b"HPKE\x00\x20\x00\x01\x00\x01";
const MODE_BASE: u8 = 0;

/// An aggregator's key pair.
pub struct KeyPair<'a> {
    /// 32 bytes.
    pub public: &'a [u8],
    /// 32 bytes.
    pub private: &'a [u8],
}

/// The receiver of all messages under one `info`.
pub struct Receiver {
    bound: Vec<u8>,
}

impl Receiver {
    /// The part of the key schedule that no message changes (RFC 9180, 5.1).
    pub fn new(info: &[u8]) -> Self {
        let (psk_id_hash, _) = extract(SUITE, &[], b"psk_id_hash", &[]);
        let (info_hash, _) = extract(SUITE, &[], b"info_hash", info);
        Self {
            bound: [&[MODE_BASE][..], &psk_id_hash, &info_hash].concat(),
        }
    }

    /// The plaintext of one message; nothing where it does not open.
    pub fn open(
        &self,
        key: &KeyPair<'_>,
        enc: &[u8],
        aad: &[u8],
        payload: &[u8],
    ) -> Option<Vec<u8>> {
        let (private, sender) = (key.private.try_into().ok()?, enc.try_into().ok()?);
        let shared: [u8; KEY_SIZE] = x25519_dalek::x25519(private, sender);
        if bool::from(shared.ct_eq(&[0; KEY_SIZE])) {
            return None; // a point of small order (RFC 9180, 7.1.4)
        }
        let (_, eae) = extract(KEM_SUITE, &[], b"eae_prk", &shared);
        let context = [enc, key.public].concat();
        let secret: [u8; 32] = expand(KEM_SUITE, &eae, b"shared_secret", &context)?;
        let (_, schedule) = extract(SUITE, &secret, b"secret", &[]);
        let key: [u8; 16] = expand(SUITE, &schedule, b"key", &self.bound)?;
        let nonce: [u8; 12] = expand(SUITE, &schedule, b"base_nonce", &self.bound)?;
        let cipher = Aes128Gcm::new_from_slice(&key).ok()?;
        cipher
            .decrypt(&nonce.into(), Payload { msg: payload, aad })
            .ok()
    }
}

/// `LabeledExtract` (RFC 9180, section 4).
fn extract(suite: &[u8], salt: &[u8], label: &[u8], ikm: &[u8]) -> ([u8; 32], Hkdf<Sha256>) {
    let (prk, hkdf) = Hkdf::extract(Some(salt), &[LABEL, suite, label, ikm].concat());
    (prk.into(), hkdf)
}

/// `LabeledExpand` (RFC 9180, section 4).
fn expand<const N: usize>(
    suite: &[u8],
    prk: &Hkdf<Sha256>,
    label: &[u8],
    info: &[u8],
) -> Option<[u8; N]> {
    let [.., high, low] = N.to_be_bytes();
    let mut out = [0; N];
    prk.expand_multi_info(&[&[high, low], LABEL, suite, label, info], &mut out)
        .ok()?;
    Some(out)
}
