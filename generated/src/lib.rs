//! FlatBuffer accessors that flatc makes of the schemas/ folder.
