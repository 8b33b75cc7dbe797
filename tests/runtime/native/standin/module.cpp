// The sources as one unit: reading torch's headers takes most of the compiler's time.

#include "device.cpp"
#include "group.cpp"
