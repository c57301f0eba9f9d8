#pragma once
// Whether this is a sanitizer build. GCC and clang define different macros.

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define RAPT_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define RAPT_SANITIZED 1
#endif
#endif
#ifndef RAPT_SANITIZED
#define RAPT_SANITIZED 0
#endif
