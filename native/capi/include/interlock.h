/* interlock's native engine, C ABI. SPDX-License-Identifier: Apache-2.0 */
#ifndef INTERLOCK_H
#define INTERLOCK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The contract that this header describes. */
#define IL_ABI_VERSION 2u

/* The contract that the loaded library speaks; where it differs from IL_ABI_VERSION, do not go on. */
uint32_t il_abi_version(void);

#ifdef __cplusplus
}
#endif

#endif
