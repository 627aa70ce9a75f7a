# SPDX-License-Identifier: Apache-2.0
"""Operations that are more than rows put in: overwrites, conditional changes, deletes, changes of the schema."""
