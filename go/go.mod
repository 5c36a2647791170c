module bellwether

go 1.19
