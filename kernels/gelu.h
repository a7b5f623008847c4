/*
 * kernels/gelu.h - the tail of the normal distribution, from which both backends compute
 * GELU.
 *
 * For u >= 0, Phi(-u) = e^(-u^2/2) Q(u), where Q(u) = e^(u^2/2) erfc(u / sqrt 2) / 2
 * decreases slowly: a polynomial in s = 4 / (u + 4), the variable of Shepherd and
 * Laframboise, "Chebyshev approximation of (1 + 2x) exp(x^2) erfc x in 0 <= x < inf",
 * Math. Comp. 36, 1981. The coefficients come from interpolation at the Chebyshev points
 * of s for u of 0 to 15, relative error 3.5e-8 after rounding to fp32; beyond that
 * Phi(-u) is 0 in fp32. Both tails keep their digits: no value near 1 is subtracted from
 * 1.
 */
#ifndef KERNELS_GELU_H
#define KERNELS_GELU_H

#define GELU_MOST  16.0f        /* u beyond it may be taken for it */
#define GELU_SHIFT 4.0f         /* s = GELU_SHIFT / (u + GELU_SHIFT) */
#define GELU_PEAK  0.398942280f /* the density at 0: 1 / sqrt(2 pi) */

/* Q(u) of s, a number or a vector of them. */
#define GELU_TAIL(s)                                                            \
    ((((((((((0.0160714742f * (s)-0.0602258518f) * (s) + 0.0461199358f) * (s) + \
            0.0350751542f) *                                                    \
               (s) +                                                            \
           0.00786620378f) *                                                    \
              (s) +                                                             \
          0.0888593569f) *                                                      \
             (s) +                                                              \
         0.0713885725f) *                                                       \
            (s) +                                                               \
        0.0956115723f) *                                                        \
           (s) +                                                                \
       0.0994855687f) *                                                         \
          (s) +                                                                 \
      0.0997480154f) *                                                          \
     (s))

/*
 * GELU by tanh: x (1 + tanh z) / 2 = x / (1 + e^-2z),  2z = x (LINEAR + CUBIC x^2), which
 * are 2 sqrt(2 / pi) and 0.044715 of it.
 */
#define GELU_TANH_LINEAR 1.59576912f
#define GELU_TANH_CUBIC  0.0713548163f

/* The factor of x in QUICK_GELU (Hendrycks and Gimpel's approximation by the sigmoid). */
#define GELU_QUICK_LINEAR 1.702f

#endif
